#include "sim/output/validation_summary.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace foretrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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

// The members beside rows, which are many and not needed here.
json read_head(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return json::parse(
      stream,
      [](int depth, json::parse_event_t event, json& parsed) {
        return depth != 1 || event != json::parse_event_t::key ||
               (parsed != "rows" && parsed != "groups" && parsed != "by_distance");
      },
      false);
}

}  // namespace

std::optional<ValidationSummary> read_validation_summary(const std::vector<fs::path>& folders,
                                                         std::vector<std::string>& unreadable) {
  for (const fs::path& folder : folders) {
    ValidationSummary all;
    double error_sum = 0;
    for (const fs::path& file : json_files_below(folder)) {
      if (is_another_of_ours(file)) continue;
      const json head = read_head(file);
      if (head.is_discarded()) {
        unreadable.push_back(file.string());
        continue;
      }
      if (!head.is_object() || head.value("schema", json()) != "foretrain/validation/1") continue;
      const json summary = head.value("summary", json::object());
      const json rows = summary.value("rows", json()), mean = summary.value("mean_abs_error", json()),
                 worst = summary.value("max_abs_error", json());
      if (!rows.is_number() || !mean.is_number() || !worst.is_number()) {
        unreadable.push_back(file.string());
        continue;
      }
      all.rows += rows.get<std::int64_t>();
      error_sum += rows.get<double>() * mean.get<double>();
      all.max_abs_error = std::max(all.max_abs_error, worst.get<double>());
    }
    if (all.rows == 0) continue;
    all.mean_abs_error = error_sum / static_cast<double>(all.rows);
    return all;
  }
  return std::nullopt;
}

}  // namespace foretrain
