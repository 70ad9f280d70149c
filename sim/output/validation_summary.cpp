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

}  // namespace

std::optional<ValidationSummary> read_validation_summary(const std::vector<fs::path>& folders,
                                                         std::vector<std::string>& unreadable) {
  for (const fs::path& folder : folders) {
    ValidationSummary all;
    double error_sum = 0;
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
      const JsonNode* summary = tree->root().find("summary");
      const auto number = [&](const char* name) {
        const JsonNode* found = summary == nullptr ? nullptr : summary->find(name);
        return found == nullptr || !found->is_number() ? -1 : found->number();
      };
      const double rows = number("rows"), mean = number("mean_abs_error"), worst = number("max_abs_error");
      if (rows < 0 || mean < 0 || worst < 0) {
        unreadable.push_back(file.string());
        continue;
      }
      all.rows += static_cast<std::int64_t>(rows);
      error_sum += rows * mean;
      all.max_abs_error = std::max(all.max_abs_error, worst);
    }
    if (all.rows == 0) continue;
    all.mean_abs_error = error_sum / static_cast<double>(all.rows);
    return all;
  }
  return std::nullopt;
}

}  // namespace foretrain
