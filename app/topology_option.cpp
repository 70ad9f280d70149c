#include "app/topology_option.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "app/messages.hpp"
#include "sim/base/error.hpp"
#include "sim/input/document.hpp"
#include "sim/input/overrides.hpp"
#include "sim/input/topology_reader.hpp"
#include "sim/input/topology_schema.hpp"
#include "sim/output/file_writer.hpp"
#include "sim/output/topology_drawing.hpp"

namespace foretrain::app {
namespace {

// A file that goes when this does.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() / "foretrain-XXXXXX").string();
    const int descriptor = mkstemp(path_.data());
    if (descriptor < 0) throw Error(ErrorKind::failure, "no temporary file can be made in " + path_);
    close(descriptor);
    std::FILE* file = std::fopen(path_.c_str(), "w");
    const bool wrote = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (file != nullptr) std::fclose(file);
    if (!wrote) throw Error(ErrorKind::failure, path_ + " cannot be written");
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string drawn_by_graphviz(const std::string& dot, const std::string& format) {
  const TemporaryFile file(dot);
  // The path is ours and holds no quotes; the format is one of a list.
  std::FILE* pipe = popen(("dot -T" + format + " '" + file.path() + "' 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) throw Error(ErrorKind::failure, "Graphviz's 'dot' cannot be started");
  std::string out;
  std::array<char, 65536> piece{};
  while (const std::size_t read = std::fread(piece.data(), 1, piece.size(), pipe))
    out.append(piece.data(), read);
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    throw Error(ErrorKind::unavailable,
                "--draw: Graphviz's 'dot' is not installed (Debian: graphviz); a target that ends in .dot "
                "needs none");
  }
  if (status != 0) throw Error(ErrorKind::failure, "--draw: Graphviz's 'dot' failed");
  return out;
}

// The shipped file of a family's name, else the first of that family.
std::optional<std::filesystem::path> example_of(const std::string& family, const Catalog& catalog) {
  if (const auto path = catalog.find(DataKind::topology, family)) return path;
  for (const std::string& name : catalog.names(DataKind::topology)) {
    const auto path = catalog.find(DataKind::topology, name);
    Diagnostics diagnostics;
    const auto file = path ? read_document(*path, diagnostics) : std::nullopt;
    const Value* own = file && file->is_map() ? file->find("family") : nullptr;
    if (own != nullptr && own->text == family) return path;
  }
  return std::nullopt;
}

// Keys that a family needs and the command line leaves out are those of a shipped example. Of a map that is
// set in part (network.routes) those that it needs.
void add_example(const std::string& name, const Catalog& catalog, Value& cluster) {
  const Schema* family = find_family_schema(name);
  const auto path = family == nullptr ? std::nullopt : example_of(name, catalog);
  if (!path) return;
  Diagnostics diagnostics;
  const auto file = read_document(*path, diagnostics);
  diagnostics.throw_errors();
  // A grid's sides belong together.
  auto is_side = [](const KeySpec& key) { return key.name == "y" || key.name == "z"; };
  const bool takes_sides = cluster.find("x") == nullptr;
  std::string added;
  for (const KeySpec& key : family->keys) {
    const Value* value = file->find(key.name);
    if (value == nullptr || !(key.required || (takes_sides && is_side(key)))) continue;
    auto tell = [&added](const std::string& what) { added += (added.empty() ? "" : ", ") + what; };
    const auto own = std::find_if(cluster.members.begin(), cluster.members.end(),
                                  [&](const Member& member) { return member.key == key.name; });
    if (own == cluster.members.end()) {
      cluster.members.push_back({key.name, {}, *value});
      tell(key.name);
      continue;
    }
    if (key.keys == nullptr || !own->value.is_map()) continue;
    const bool is_whole = std::all_of(
        key.keys->keys.begin(), key.keys->keys.end(),
        [&](const KeySpec& inner) { return !inner.required || own->value.find(inner.name) != nullptr; });
    if (is_whole) continue;
    for (const Member& inner : value->members) {
      if (own->value.find(inner.key) != nullptr) continue;
      own->value.members.push_back(inner);
      tell(key.name + "." + inner.key);
    }
  }
  if (!added.empty()) note(name + ": " + added + " as in " + path->filename().string());
}

}  // namespace

Cluster read_topology_option(const std::string& name, const std::vector<std::string>& settings,
                             const Catalog& catalog) {
  Diagnostics diagnostics;
  Value cluster;
  cluster.kind = ValueKind::map;
  Value text;
  text.kind = ValueKind::scalar;
  text.text = name;
  cluster.members.push_back({"topology", {}, text});
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(ErrorKind::input, "--set " + setting + ": write KEY=VALUE, as in nodes=4");
    }
  }
  apply_overrides(cluster, Overrides(settings.begin(), settings.end()), diagnostics);
  add_example(name, catalog, cluster);
  Cluster made = read_cluster(cluster, catalog, diagnostics);
  diagnostics.throw_errors();
  for (const Diagnostic& hint : diagnostics.warnings()) warning(hint.text());
  return made;
}

void draw_topology(const Topology& topology, const std::string& target) {
  const std::string dot = topology_dot(topology);
  for (const char* format : {"svg", "png", "pdf"}) {
    if (target.ends_with(std::string(".") + format))
      return write_file(target, drawn_by_graphviz(dot, format));
  }
  write_file(target, dot);
}

}  // namespace foretrain::app
