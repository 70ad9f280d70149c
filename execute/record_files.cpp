#include "execute/record_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "execute/run_record_json.hpp"
#include "sim/base/error.hpp"
#include "sim/base/sha256.hpp"
#include "sim/input/file_kind.hpp"
#include "sim/input/gunzip.hpp"

namespace foretrain {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> json_files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if ((name.ends_with(".json") || name.ends_with(".json.gz")) && at->is_regular_file(error)) {
      files.push_back(at->path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Our files begin with their schema.
bool is_other_file_of_ours(std::string_view text) {
  constexpr std::size_t head = 256;
  text = text.substr(0, head);
  return text.find("\"foretrain/") != std::string_view::npos &&
         text.find(RunRecord::schema) == std::string_view::npos;
}

class Collector {
 public:
  std::vector<FiledRecord> records;
  Diagnostics diagnostics;
  std::vector<std::string> left_out;

  // Whether the file was a run record, whole or not.
  bool add(const fs::path& file, bool named) {
    std::string text;
    try {
      text = read_possibly_compressed(file);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input) throw;
      for (const Diagnostic& finding : error.diagnostics()) diagnostics.error(finding.where, finding.what);
      return true;
    }
    if (!named && is_other_file_of_ours(text)) return false;
    if (named && is_other_kind(text, file.string())) return true;
    if (auto record = parse_run_record(text, file.string(), diagnostics)) {
      const auto [same, is_new] = seen_.emplace(sha256(text), file.string());
      if (is_new) {
        records.push_back({file.string(), std::move(*record)});
      } else {
        left_out.push_back(same->second == file.string()
                               ? file.string() + " is named twice"
                               : fmt::format("{} is the record {} once more", file.string(), same->second));
      }
    }
    return true;
  }

 private:
  bool is_other_kind(const std::string& text, const std::string& file) {
    if (refuse_other_kind(text, file, FileKind::run_record, diagnostics)) return true;
    if (looks_like_json(text, file)) return false;
    Diagnostics passed_over;
    const auto root = parse_document(text, file, passed_over);
    return root && refuse_other_kind(*root, FileKind::run_record, diagnostics);
  }

  std::map<std::string, std::string> seen_;  // digest to file
};

}  // namespace

std::vector<FiledRecord> read_record_files(const std::vector<std::string>& paths,
                                           std::vector<std::string>* left_out) {
  Collector all;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      all.add(path, true);
      continue;
    }
    bool any = false;
    for (const fs::path& file : json_files_below(path)) any |= all.add(file, false);
    if (!any) all.diagnostics.error({path}, "holds no run record (*.json or *.json.gz, \"foretrain/run/1\")");
  }
  all.diagnostics.throw_errors();
  if (left_out != nullptr) *left_out = std::move(all.left_out);
  return std::move(all.records);
}

}  // namespace foretrain
