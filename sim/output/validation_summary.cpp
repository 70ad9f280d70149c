#include "sim/output/validation_summary.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "sim/input/document.hpp"
#include "sim/input/json_tree.hpp"

namespace foretrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest = std::size_t{64} << 20;  // bytes of a file

std::vector<fs::path> json_files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".json" && at->is_regular_file(error)) files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Most files below are others of ours, large and not needed here: their first bytes tell.
bool is_another_of_ours(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string head(1024, '\0');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find("\"foretrain/") != std::string::npos &&
         head.find("\"foretrain/validation/1\"") == std::string::npos;
}

// None where there are none that make sense.
std::optional<ErrorFigures> figures_of(const JsonNode* summary) {
  const auto number = [&](const char* name) {
    const JsonNode* found = summary == nullptr ? nullptr : summary->find(name);
    return found == nullptr || !found->is_number() ? -1 : found->number();
  };
  const double rows = number("rows"), mean = number("mean_abs_error"), worst = number("max_abs_error");
  constexpr double most_rows = 1e15;
  if (!(rows >= 0 && rows <= most_rows && mean >= 0 && worst >= 0)) return std::nullopt;
  return ErrorFigures{static_cast<std::int64_t>(rows), mean, worst};
}

void add(const ErrorFigures& more, ErrorFigures& sum) {
  const auto rows = static_cast<double>(sum.rows), others = static_cast<double>(more.rows);
  if (more.rows == 0) return;
  sum.mean_abs_error = (rows * sum.mean_abs_error + others * more.mean_abs_error) / (rows + others);
  sum.max_abs_error = std::max(sum.max_abs_error, more.max_abs_error);
  sum.rows += more.rows;
}

}  // namespace

std::optional<ValidationSummary> read_validation_summary(const std::vector<fs::path>& folders,
                                                         std::vector<std::string>& unreadable) {
  for (const fs::path& folder : folders) {
    ValidationSummary all;
    for (const fs::path& file : json_files_below(folder)) {
      if (is_another_of_ours(file)) continue;
      const std::string text = read_file_limited(file, largest);
      Diagnostics diagnostics;
      // Rows are many and not needed here.
      const auto tree = JsonTree::parse(text, file.string(), diagnostics,
                                        [](std::string_view, std::size_t, const JsonNode&) { return true; });
      if (!tree) {
        unreadable.push_back(file.string());
        continue;
      }
      const JsonNode* schema = tree->root().find("schema");
      if (schema == nullptr || schema->text() != "foretrain/validation/1") continue;
      const std::optional<ErrorFigures> figures = figures_of(tree->root().find("summary"));
      if (!figures) {
        unreadable.push_back(file.string());
        continue;
      }
      add(*figures, all);
      const JsonNode* kinds = tree->root().find("by_kind");  // not in files of older versions
      for (std::size_t i = 0; kinds != nullptr && kinds->is_object() && i < kinds->size(); ++i)
        if (const auto of_kind = figures_of(&(*kinds)[i]))
          add(*of_kind, all.kinds[std::string((*kinds)[i].key())]);
    }
    if (all.rows > 0) return all;
  }
  return std::nullopt;
}

}  // namespace foretrain
