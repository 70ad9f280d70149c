#include "sim/import/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/base/quantile.hpp"
#include "sim/base/utf8.hpp"
#include "sim/import/lines.hpp"
#include "sim/input/diagnostics.hpp"
#include "sim/output/json_writer.hpp"

namespace foretrain {
namespace {

struct Column {
  int index = -1;
  double unit = 1;  // seconds of a bare number
};

struct Columns {
  Column batch, time, deviation;
};

struct Row {
  double seconds = 0;
  double deviation = 0;
};

// A standard error of the median is this many of the mean (of a normal distribution).
constexpr double median_error = 1.2533;

bool holds(const std::string& text, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return text.find(part) != std::string::npos; });
}

// "step_ms", "time (us)", "seconds": a bare number's unit, 0 where the name says none.
double unit_in(const std::string& name) {
  if (holds(name, {"millis", "_ms", "(ms", "[ms", " ms"}) || name == "ms") return 1e-3;
  if (holds(name, {"micros", "_us", "(us", "[us", " us"}) || name == "us") return 1e-6;
  if (holds(name, {"nanos", "_ns", "(ns", "[ns", " ns"}) || name == "ns") return 1e-9;
  if (holds(name, {"second", "_s", "(s", "[s", " s"}) || name == "s") return 1;
  return 0;
}

char separator_of(std::string_view line) {
  const auto count = [&](char c) { return std::count(line.begin(), line.end(), c); };
  if (count(';') > 0) return ';';
  return count('\t') > 0 && count(',') == 0 ? '\t' : ',';
}

class Reader {
 public:
  explicit Reader(const ImportOptions& options) : options_(options) {}

  std::map<std::int64_t, std::vector<Row>> read(std::string_view csv) {
    int number = 0;
    bool has_columns = false;
    for (const std::string_view raw : lines_of(csv)) {
      ++number;
      const std::string_view line = trimmed(raw);
      if (line.empty() || line.starts_with('#')) continue;
      if (!has_columns) separator_ = separator_of(line);
      const std::vector<std::string> cells = cells_of(line, separator_);
      const SourceLocation where{options_.file, number, 0};
      if (!has_columns) {
        has_columns = true;
        if (is_head(cells)) {
          if (!read_head(cells, where)) break;
          continue;
        }
        columns_ = {{0, 1}, {1, 1}, {cells.size() > 2 ? 2 : -1, 1}};
        has_unit_ = false;
      }
      read_row(cells, where);
      constexpr std::size_t few = 20;
      if (findings_.error_count() >= few) break;
    }
    if (findings_.ok() && rows_.empty()) findings_.error({options_.file}, "has no rows of batch and seconds");
    findings_.throw_errors();
    return std::move(rows_);
  }

  int count() const { return count_; }
  // Times stood there as bare numbers, and nothing says of what.
  bool assumed_seconds() const { return !has_unit_ && has_bare_; }

 private:
  static bool is_head(const std::vector<std::string>& cells) {
    double ignored = 0;
    return !read_number(cells.front(), ignored) &&
           std::none_of(cells.begin(), cells.end(),
                        [&](const auto& cell) { return read_number(cell, ignored); });
  }

  bool read_head(const std::vector<std::string>& cells, const SourceLocation& where) {
    for (int i = 0; i < static_cast<int>(cells.size()); ++i) {
      const std::string name = lower_case(cells[static_cast<std::size_t>(i)]);
      const double unit = unit_in(name);
      const bool is_deviation = holds(name, {"std", "dev", "spread", "sigma"});
      if (name.starts_with("batch") || name == "bs" || name == "samples") {
        if (columns_.batch.index < 0) columns_.batch = {i, 1};
      } else if (is_deviation) {
        if (columns_.deviation.index < 0) columns_.deviation = {i, unit};
      } else if (unit > 0 || holds(name, {"time", "step", "duration", "latency"})) {
        if (columns_.time.index < 0) columns_.time = {i, unit};
      }
    }
    has_unit_ = columns_.time.unit > 0;
    if (!has_unit_) columns_.time.unit = 1;
    if (columns_.deviation.unit == 0) columns_.deviation.unit = columns_.time.unit;
    if (columns_.batch.index >= 0 && columns_.time.index >= 0) return true;
    findings_.error(
        where,
        fmt::format("the head names {}: needed are a column 'batch' and a column 'seconds' (or step_ms, "
                    "time_us, ...)",
                    plain_line(fmt::format("{}", fmt::join(cells, ", ")))));
    return false;
  }

  void read_row(const std::vector<std::string>& cells, const SourceLocation& where) {
    const std::size_t before = findings_.error_count();
    const double batch = number(cells, columns_.batch, "batch", where);
    Row row;
    row.seconds = seconds(cells, columns_.time, "time", where);
    if (columns_.deviation.index >= 0 && static_cast<std::size_t>(columns_.deviation.index) < cells.size() &&
        !cells[static_cast<std::size_t>(columns_.deviation.index)].empty())
      row.deviation = seconds(cells, columns_.deviation, "standard deviation", where);
    if (findings_.error_count() > before) return;
    constexpr double most_samples = 1e9, longest = 1e6;
    if (!(batch >= 1 && batch <= most_samples) || batch != std::floor(batch))
      findings_.error(where,
                      fmt::format("the batch {} is no whole number of samples from 1 to a billion", batch));
    if (!(row.seconds > 0 && row.seconds < longest))
      findings_.error(
          where, fmt::format("a step of {} s: between 0 and {:.0f} s are allowed", row.seconds, longest));
    if (!(row.deviation >= 0 && row.deviation < longest))
      findings_.error(where, "the standard deviation is negative");
    if (findings_.error_count() > before) return;
    rows_[static_cast<std::int64_t>(batch)].push_back(row);
    ++count_;
  }

  double number(const std::vector<std::string>& cells, const Column& column, const char* what,
                const SourceLocation& where) {
    double value = 0;
    const auto index = static_cast<std::size_t>(column.index);
    if (index >= cells.size()) {
      findings_.error(where, fmt::format("the {} is missing: the line has {} cells", what, cells.size()));
    } else if (!read_number(cells[index], value)) {
      findings_.error(where, fmt::format("the {} '{}' is no number", what, cells[index]));
    }
    return value;
  }

  // A bare number in the column's unit, or a time with its own.
  double seconds(const std::vector<std::string>& cells, const Column& column, const char* what,
                 const SourceLocation& where) {
    const auto index = static_cast<std::size_t>(column.index);
    if (index < cells.size()) {
      if (const auto time = parse_time(cells[index]); const auto* read = std::get_if<Time>(&time))
        return read->in_seconds();
    }
    has_bare_ = true;
    return column.unit * number(cells, column, what, where);
  }

  const ImportOptions& options_;
  Columns columns_;
  char separator_ = ',';
  std::map<std::int64_t, std::vector<Row>> rows_;
  Diagnostics findings_;
  bool has_unit_ = true, has_bare_ = false;
  int count_ = 0;
};

// One time of a batch and its standard deviation, 0 where nothing tells it.
Row joined(const std::vector<Row>& rows) {
  std::vector<double> times;
  double given = 0, squares = 0, mean = 0;
  for (const Row& row : rows) {
    times.push_back(row.seconds);
    given = std::max(given, row.deviation);
    mean += row.seconds / static_cast<double>(rows.size());
  }
  for (const double time : times) squares += (time - mean) * (time - mean);
  const auto n = static_cast<double>(times.size());
  Row out{median(times), given};
  if (n > 1) out.deviation = std::max(given, median_error * std::sqrt(squares / (n - 1) / n));
  return out;
}

std::string time_text(double seconds) {
  return seconds >= 1      ? fmt::format("{:.9g} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.9g} ms", seconds * 1e3)
                           : fmt::format("{:.9g} us", seconds * 1e6);
}

}  // namespace

Imported import_steps(std::string_view csv, const ImportOptions& options) {
  Reader reader(options);
  const auto rows = reader.read(csv);
  const bool is_json = options.target.ends_with(".json");
  const char* quote = is_json ? "\"" : "";
  std::string steps;
  int repeated = 0;
  for (const auto& [batch, times] : rows) {
    const Row row = joined(times);
    repeated += times.size() > 1;
    steps +=
        fmt::format("{}[{}, {}{}{}", steps.empty() ? "" : ", ", batch, quote, time_text(row.seconds), quote);
    if (row.deviation >= Time::picoseconds(1).in_seconds())
      steps += fmt::format(", {}{}{}", quote, time_text(row.deviation), quote);
    steps += ']';
  }
  Imported out;
  std::string gradients;
  if (options.gradient_bytes) gradients = fmt::format("{:.0f} B", *options.gradient_bytes);
  if (is_json) {
    out.content = fmt::format("{{\"steps\": [{}]", steps);
    if (!gradients.empty()) out.content += fmt::format(", \"gradients\": \"{}\"", gradients);
    out.content += "}\n";
  } else {
    out.content = fmt::format("# Step times of {} batches, imported\nsteps: [{}]\n", rows.size(), steps);
    if (!gradients.empty()) out.content += "gradients: " + gradients + '\n';
  }
  out.summary = fmt::format("{} rows, {} batch{} from {} to {}", reader.count(), rows.size(),
                            rows.size() == 1 ? "" : "es", rows.begin()->first, rows.rbegin()->first);
  if (reader.assumed_seconds()) out.notes.emplace_back("no unit is said of the times: taken for seconds");
  if (repeated > 0)
    out.notes.push_back(
        fmt::format("{} batches were measured several times: medians, with their standard errors", repeated));
  if (rows.size() == 1)
    out.notes.push_back(
        "one batch alone: at other batches a step is predicted between all fixed cost and all in proportion");
  return out;
}

}  // namespace foretrain
