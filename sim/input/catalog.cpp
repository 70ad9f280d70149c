#include "sim/input/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "sim/base/spelling.hpp"
#include "sim/input/document.hpp"
#include "sim/input/profile_entry.hpp"
#include "sim/input/profile_join.hpp"
#include "sim/input/profile_json.hpp"

namespace foretrain {
namespace {

namespace fs = std::filesystem;

// The beginning of a file is enough for its first comment line.
constexpr std::size_t title_bytes = 4096;

std::vector<std::string> endings(DataKind kind) {
  if (kind == DataKind::profile) return {".json", ".json.gz"};
  return {".yaml"};
}

// "NVIDIA H100: resnet50, vgg16 in bf16, tf32; collectives"
std::string title_of_profile(const fs::path& path) {
  Diagnostics unused;
  const auto profile = read_profile(path, unused);
  if (!profile) return "cannot be read: see 'foretrain check'";
  std::set<std::string> models, precisions;
  for (const OperatorEntry& entry : profile->operators) {
    if (!entry.context.empty()) models.insert(entry.context);
    precisions.insert(name_of(entry.precision));
  }
  std::string title = device_of(*profile);
  for (const std::string& model : models) title += (model == *models.begin() ? ": " : ", ") + model;
  for (const std::string& each : precisions) title += (each == *precisions.begin() ? " in " : ", ") + each;
  if (!profile->collectives.empty()) title += profile->operators.empty() ? ": collectives" : "; collectives";
  return title;
}

std::string title_of(DataKind kind, const fs::path& path) {
  if (kind == DataKind::profile) return title_of_profile(path);
  std::string text;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!stream) return {};
  text.resize(title_bytes);
  text.resize(std::fread(text.data(), 1, text.size(), stream.get()));
  return first_comment(text);
}

}  // namespace

void Catalog::keep_profiles() {
  profiles_ = std::make_shared<ProfileCache>();
}

const char* name_of(DataKind kind) {
  switch (kind) {
    case DataKind::model:
      return "model";
    case DataKind::topology:
      return "topology";
    case DataKind::profile:
      return "profile";
    case DataKind::scenario:
      return "scenario";
  }
  return "";
}

const char* folder_of(DataKind kind) {
  switch (kind) {
    case DataKind::model:
      return "models";
    case DataKind::topology:
      return "topologies";
    case DataKind::profile:
      return "profiles";
    case DataKind::scenario:
      return "scenarios";
  }
  return "";
}

bool looks_like_path(std::string_view text) {
  static constexpr std::array<std::string_view, 4> known{".yaml", ".yml", ".json", ".gz"};
  if (text.find('/') != std::string_view::npos) return true;
  return std::any_of(known.begin(), known.end(), [&](std::string_view end) { return text.ends_with(end); });
}

std::string data_name(const fs::path& path) {
  std::string name = path.filename().string();
  for (const char* ending : {".gz", ".json", ".yaml", ".yml"}) {
    if (name.ends_with(ending) && name != ending) name.resize(name.size() - std::string_view(ending).size());
  }
  return name;
}

std::vector<Catalog::Entry> Catalog::files(DataKind kind) const {
  std::vector<Entry> all;
  for (const fs::path& root : roots_) {
    std::error_code code;
    for (const fs::directory_entry& file : fs::directory_iterator(root / folder_of(kind), code)) {
      const std::string file_name = file.path().filename().string();
      const auto ends = endings(kind);
      const bool is_data = !file_name.starts_with('.') &&
                           std::any_of(ends.begin(), ends.end(),
                                       [&](const std::string& end) { return file_name.ends_with(end); });
      if (!is_data || !file.is_regular_file(code)) continue;
      const std::string name = data_name(file.path());
      const bool is_known =
          std::any_of(all.begin(), all.end(), [&](const Entry& entry) { return entry.name == name; });
      if (!is_known) all.push_back({name, {}, file.path()});
    }
  }
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return all;
}

std::vector<Catalog::Entry> Catalog::list(DataKind kind) const {
  std::vector<Entry> all = files(kind);
  for (Entry& entry : all) entry.title = title_of(kind, entry.path);
  return all;
}

std::vector<std::string> Catalog::names(DataKind kind) const {
  std::vector<std::string> all;
  for (const Entry& entry : files(kind)) all.push_back(entry.name);
  return all;
}

std::optional<fs::path> Catalog::find(DataKind kind, std::string_view name) const {
  if (name.empty() || name.find('/') != std::string_view::npos || name.starts_with('.')) return std::nullopt;
  for (const fs::path& root : roots_) {
    for (const std::string& ending : endings(kind)) {
      fs::path path = root / folder_of(kind) / (std::string(name) + ending);
      std::error_code code;
      if (fs::exists(path, code)) return path;
    }
  }
  return std::nullopt;
}

std::optional<fs::path> Catalog::resolve(DataKind kind, const std::string& text, const SourceLocation& where,
                                         Diagnostics& diagnostics) const {
  std::error_code code;
  if (looks_like_path(text)) {
    fs::path path = path_beside(where.file, text);
    if (fs::is_regular_file(path, code) || (fs::exists(path, code) && !fs::is_directory(path, code)))
      return path;
    const char* problem = fs::is_directory(path, code) ? "is a folder" : "is not there";
    diagnostics.error(where, fmt::format("the {} file '{}' {}", name_of(kind), path.string(), problem));
    return std::nullopt;
  }
  if (auto path = find(kind, text)) return path;
  const std::vector<std::string> known = names(kind);
  std::string allowed = known.empty() ? "none ships" : "what ships: ";
  for (std::size_t i = 0; i < known.size(); ++i) allowed += (i ? ", " : "") + known[i];
  diagnostics.error(
      where, fmt::format("unknown {} '{}' ({}; or a file, as in './{}{}'){}", name_of(kind), text, allowed,
                         text, endings(kind).front(), did_you_mean(text, known)));
  return std::nullopt;
}

}  // namespace foretrain
