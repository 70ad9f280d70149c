#include "sim/input/file_kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim/input/model_schema.hpp"
#include "sim/input/scenario_schema.hpp"
#include "sim/input/topology_schema.hpp"
#include "sim/input/workload_json.hpp"
#include "sim/output/result.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {
namespace {

constexpr std::array schemas{
    KnownSchema{Profile::schema, FileKind::profile},
    KnownSchema{Result::schema, FileKind::result},
    KnownSchema{"foretrain/run/1", FileKind::run_record},
    KnownSchema{"foretrain/validation/1", FileKind::validation},
    KnownSchema{"foretrain/collective/1", FileKind::collective},
    KnownSchema{"foretrain/plan/1", FileKind::plan},
    KnownSchema{"foretrain/comparison/1", FileKind::comparison},
    KnownSchema{Workload::schema, FileKind::workload},
};

// The kinds of YAML files, with the keys by which each is known.
struct KnownKeys {
  FileKind kind;
  std::vector<std::string> keys;
};
const std::vector<KnownKeys>& yaml_kinds() {
  static const std::vector<KnownKeys> all = [] {
    std::vector<KnownKeys> kinds{{FileKind::scenario, scenario_schema().names()},
                                 {FileKind::model, model_schema().names()},
                                 {FileKind::topology, graph_schema().names()},
                                 {FileKind::step_times, step_profile_schema().names()}};
    kinds[2].keys.push_back("family");
    for (const Schema* family : family_schemas()) {
      for (const std::string& key : family->names()) kinds[2].keys.push_back(key);
    }
    return kinds;
  }();
  return all;
}

std::size_t shared_keys(const Value& root, const KnownKeys& candidate) {
  return static_cast<std::size_t>(
      std::count_if(root.members.begin(), root.members.end(), [&](const Member& member) {
        return std::find(candidate.keys.begin(), candidate.keys.end(), member.key) != candidate.keys.end();
      }));
}

// What to do with it in place of what was done.
const char* use_of(FileKind kind) {
  switch (kind) {
    case FileKind::scenario:
      return "; 'foretrain simulate' and 'foretrain run' read it";
    case FileKind::model:
      return "; a scenario names it, as in 'model: FILE'";
    case FileKind::topology:
      return "; a scenario names it, as in 'cluster: { topology: FILE }'";
    case FileKind::step_times:
    case FileKind::profile:
      return "; a scenario names it, as in 'profile: FILE'";
    case FileKind::workload:
      return "; a scenario names it, as in 'workload: FILE'";
    case FileKind::result:
      return "; 'foretrain compare' and 'foretrain report' read it";
    case FileKind::run_record:
      return "; 'foretrain validate' and 'foretrain report' read it";
    case FileKind::validation:
    case FileKind::collective:
      return "; 'foretrain report' reads it";
    case FileKind::plan:
    case FileKind::comparison:
    case FileKind::unknown:
      break;
  }
  return "";
}

std::string other_kind(FileKind found, FileKind wanted) {
  return fmt::format("is a {}, where a {} belongs{}", name_of(found), name_of(wanted), use_of(found));
}

}  // namespace

const char* name_of(FileKind kind) {
  switch (kind) {
    case FileKind::unknown:
      return "unknown";
    case FileKind::scenario:
      return "scenario";
    case FileKind::model:
      return "model";
    case FileKind::topology:
      return "topology";
    case FileKind::step_times:
      return "step-time profile";
    case FileKind::profile:
      return "profile";
    case FileKind::result:
      return "result";
    case FileKind::run_record:
      return "run record";
    case FileKind::validation:
      return "validation";
    case FileKind::collective:
      return "collective timing";
    case FileKind::plan:
      return "plan";
    case FileKind::comparison:
      return "comparison";
    case FileKind::workload:
      return "workload";
  }
  return "";
}

std::span<const KnownSchema> json_schemas() {
  return schemas;
}

bool looks_like_json(std::string_view text, const std::string& file) {
  if (file.ends_with(".json") || file.ends_with(".json.gz")) return true;
  if (file.ends_with(".yaml") || file.ends_with(".yml")) return false;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (text[first] == '{' || text[first] == '[') &&
         text.find("\"schema\"") != std::string_view::npos;
}

std::string schema_of(std::string_view text) {
  const std::size_t member = text.find("\"schema\"");
  if (member == std::string_view::npos) return {};
  const std::size_t begin = text.find('"', member + 8);
  if (begin == std::string_view::npos) return {};
  const std::size_t end = text.find('"', begin + 1);
  return end == std::string_view::npos ? std::string() : std::string(text.substr(begin + 1, end - begin - 1));
}

FileKind kind_of(const Value& root) {
  FileKind best = FileKind::unknown;
  std::size_t most = 0;
  for (const KnownKeys& candidate : yaml_kinds()) {
    const std::size_t shared = shared_keys(root, candidate);
    if (shared > most) {
      best = candidate.kind;
      most = shared;
    }
  }
  return best;
}

bool refuse_other_kind(std::string_view text, const std::string& file, FileKind wanted,
                       Diagnostics& diagnostics) {
  // Whatever its name: our writers' files begin with their schema.
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '[')) return false;
  const std::string schema = schema_of(text);
  for (const KnownSchema& known : schemas) {
    if (schema != known.schema || known.kind == wanted) continue;
    diagnostics.error({file}, other_kind(known.kind, wanted));
    return true;
  }
  return false;
}

bool refuse_other_kind(const Value& root, FileKind wanted, Diagnostics& diagnostics) {
  const FileKind found = kind_of(root);
  if (found == wanted || found == FileKind::unknown) return false;
  // Some keys are of several kinds: a file of `wanted` with a mistyped one stays that.
  std::size_t own = 0, other = 0;
  for (const KnownKeys& candidate : yaml_kinds()) {
    if (candidate.kind == wanted) own = shared_keys(root, candidate);
    if (candidate.kind == found) other = shared_keys(root, candidate);
  }
  if (other < 2 * own) return false;
  diagnostics.error(root.where(), other_kind(found, wanted));
  return true;
}

}  // namespace foretrain
