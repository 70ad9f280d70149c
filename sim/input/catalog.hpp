// Where names of models, topologies, profiles and scenarios are looked up: the data folders of the source
// tree or of the installation. A path resolves beside the file that names it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/diagnostics.hpp"

namespace foretrain {

enum class DataKind { model, topology, profile, scenario };
// "model"
const char* name_of(DataKind kind);
// "models"
const char* folder_of(DataKind kind);

class ProfileCache;  // sim/input/profile_entry.hpp

class Catalog {
 public:
  Catalog() = default;
  // Folders that each hold models/, topologies/, profiles/, scenarios/; earlier ones win.
  explicit Catalog(std::vector<std::filesystem::path> roots) : roots_(std::move(roots)) {}

  // A line of `foretrain list`.
  struct Entry {
    std::string name;
    std::string title;  // the first comment line of the file; for a profile its GPU and models
    std::filesystem::path path;
  };
  // What ships, by name.
  std::vector<Entry> list(DataKind kind) const;
  std::vector<std::string> names(DataKind kind) const;

  // The file of a shipped name (NAME.yaml; for profiles NAME.json or NAME.json.gz); none where it is unknown.
  std::optional<std::filesystem::path> find(DataKind kind, std::string_view name) const;

  // A name or a path as a file has it: a text with a '/' or with an ending (.yaml, .yml, .json, .gz) is a
  // path and resolves beside `where.file`; else it is a name. What cannot be resolved is a finding at
  // `where`, with the names that ship and the nearest.
  std::optional<std::filesystem::path> resolve(DataKind kind, const std::string& text,
                                               const SourceLocation& where, Diagnostics& diagnostics) const;

  // From now on profiles that scenarios name are read once: for the points of a grid, also in several
  // threads.
  void keep_profiles();
  ProfileCache* profile_cache() const { return profiles_.get(); }  // null: none are kept

 private:
  std::vector<Entry> files(DataKind kind) const;  // without titles

  std::vector<std::filesystem::path> roots_;
  std::shared_ptr<ProfileCache> profiles_;
};

// Whether a text is taken for a path and not for a name.
bool looks_like_path(std::string_view text);
// "h100" for profiles/h100.json.gz.
std::string data_name(const std::filesystem::path& path);

}  // namespace foretrain
