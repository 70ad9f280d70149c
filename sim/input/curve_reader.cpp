#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/utf8.hpp"
#include "sim/input/job_reader.hpp"
#include "sim/input/scalars.hpp"

namespace foretrain {
namespace {

char separator_of(std::string_view head) {
  if (head.find(',') != std::string_view::npos) return ',';
  return head.find(';') != std::string_view::npos ? ';' : '\t';
}

std::vector<std::string> cells_of(std::string_view line, char separator) {
  std::vector<std::string> cells;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(separator, at), line.size());
    std::string_view cell = line.substr(at, end - at);
    while (cell.starts_with(' ')) cell.remove_prefix(1);
    while (cell.ends_with(' ') || cell.ends_with('\r')) cell.remove_suffix(1);
    cells.emplace_back(cell);
    at = end + 1;
  }
  return cells;
}

struct Columns {
  int x = -1, value = -1, run = -1;
};

}  // namespace

std::shared_ptr<const Curve> parse_curve(std::string_view text, const std::string& file,
                                         Diagnostics& diagnostics) {
  auto curve = std::make_shared<Curve>();
  curve->file = file;
  Columns columns;
  std::map<std::string, std::vector<std::pair<double, double>>> runs;
  const std::size_t before = diagnostics.error_count();
  bool has_head = false;
  char separator = ',';
  int line = 0;
  if (constexpr std::string_view byte_order_mark = "\xef\xbb\xbf"; text.starts_with(byte_order_mark))
    text.remove_prefix(byte_order_mark.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view row = text.substr(at, end - at);
    at = end + 1;
    ++line;
    if (row.empty() || row == "\r" || row.starts_with('#')) continue;
    if (!has_head) separator = separator_of(row);
    const std::vector<std::string> cells = cells_of(row, separator);
    const SourceLocation where{file, line, 0};
    if (!has_head) {
      has_head = true;
      for (int i = 0; i < static_cast<int>(cells.size()); ++i) {
        const std::string& name = cells[static_cast<std::size_t>(i)];
        if (name == "updates" || name == "steps" || name == "epochs") {
          columns.x = i;
          curve->by_epochs = name == "epochs";
        } else if (name == "loss" || name == "accuracy") {
          columns.value = i;
          curve->is_accuracy = name == "accuracy";
        } else if (name == "run") {
          columns.run = i;
        }
      }
      if (columns.x < 0 || columns.value < 0) {
        diagnostics.error(where,
                          fmt::format("a curve has a column 'updates' or 'epochs' and a column 'loss' or "
                                      "'accuracy'; the head names '{}'",
                                      plain_line(fmt::format("{}", fmt::join(cells, "', '")))));
        return nullptr;
      }
      continue;
    }
    auto number = [&](int column) {
      const auto parsed = static_cast<std::size_t>(column) < cells.size()
                              ? parse_plain_number(cells[static_cast<std::size_t>(column)])
                              : std::variant<double, UnitError>(UnitError{"a value is missing"});
      if (const auto* wrong = std::get_if<UnitError>(&parsed)) {
        diagnostics.error(where, wrong->what);
        return 0.0;
      }
      return std::get<double>(parsed);
    };
    const std::string run = columns.run >= 0 && static_cast<std::size_t>(columns.run) < cells.size()
                                ? cells[static_cast<std::size_t>(columns.run)]
                                : std::string();
    const double x = number(columns.x), value = number(columns.value);
    if (x < 0) diagnostics.error(where, "a curve begins at 0 updates or epochs, or later");
    auto& points = runs[run];
    if (!points.empty() && x <= points.back().first) {
      diagnostics.error(where, "a curve ascends in its updates or epochs");
    }
    points.emplace_back(x, value);
    constexpr std::size_t few_errors = 20;
    if (diagnostics.error_count() > before + few_errors) break;
  }
  if (diagnostics.error_count() > before) return nullptr;
  for (auto& [name, points] : runs) curve->runs.push_back(std::move(points));
  if (curve->runs.empty()) {
    diagnostics.error({file, 0, 0}, "the curve has no points");
    return nullptr;
  }
  return curve;
}

}  // namespace foretrain
