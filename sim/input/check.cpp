#include "sim/input/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "sim/base/spelling.hpp"
#include "sim/input/document.hpp"
#include "sim/input/gunzip.hpp"
#include "sim/input/model_reader.hpp"
#include "sim/input/profile_entry.hpp"
#include "sim/input/profile_join.hpp"
#include "sim/input/profile_json.hpp"
#include "sim/input/result_check.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/input/topology_reader.hpp"
#include "sim/input/workload_json.hpp"

namespace foretrain {
namespace {

std::string count(std::size_t number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string profile_summary(const Profile& profile) {
  std::set<std::string> models;
  for (const OperatorEntry& entry : profile.operators) models.insert(entry.context);
  models.erase("");
  std::string names;
  for (const std::string& model : models) names += (names.empty() ? "" : ", ") + model;
  return fmt::format("{}: {}{}, {}, {}", device_of(profile),
                     count(profile.operators.size(), "operator timing"), names.empty() ? "" : " of " + names,
                     count(profile.collectives.size(), "collective timing"),
                     count(profile.runs.size(), "run"));
}

CheckedFile check_json(std::string_view text, const std::string& file, Diagnostics& diagnostics) {
  CheckedFile checked;
  const std::string schema = schema_of(text);
  std::vector<std::string> known;
  for (const KnownSchema& candidate : json_schemas()) {
    known.emplace_back(candidate.schema);
    if (schema == candidate.schema) checked.kind = candidate.kind;
  }
  if (checked.kind == FileKind::profile) {
    const auto profile = parse_profile(text, file, diagnostics);
    if (profile) checked.summary = profile_summary(*profile);
    return checked;
  }
  if (checked.kind == FileKind::workload) {
    if (const auto workload = parse_workload(text, file, diagnostics)) {
      checked.summary =
          fmt::format("{} at batch {}, {} parameters", count(workload->model.layers.size() - 1, "layer"),
                      workload->batch, workload->model.parameter_count());
    }
    return checked;
  }
  if (checked.kind == FileKind::result) {
    const std::size_t before = diagnostics.error_count();
    const int results = check_result(text, file, diagnostics);
    if (diagnostics.error_count() == before) {
      checked.summary = count(static_cast<std::size_t>(results), "result");
    }
    return checked;
  }
  if (!nlohmann::json::accept(text)) {
    diagnostics.error({file}, "is not valid JSON; it may be truncated");
    return checked;
  }
  if (checked.kind == FileKind::unknown) {
    std::string allowed;
    for (const std::string& each : known) allowed += (allowed.empty() ? "" : ", ") + each;
    diagnostics.error({file}, fmt::format("its \"schema\" is '{}': known are {}{}", schema, allowed,
                                          did_you_mean(schema, known)));
    return checked;
  }
  checked.summary = "valid JSON of " + schema + "; its members are not checked";
  return checked;
}

CheckedFile check_scenario(std::string_view text, const std::string& file, const Catalog& catalog,
                           Diagnostics& diagnostics) {
  CheckedFile checked{FileKind::scenario, {}, nullptr};
  if (auto scenario = parse_scenario(text, file, catalog, {}, diagnostics)) {
    checked.summary = fmt::format("{} on {}, {} each", name_of(scenario->strategy.kind),
                                  count(scenario->cluster.topology.workers.size(), "worker"),
                                  count(static_cast<std::size_t>(scenario->batch_per_worker), "sample"));
    checked.scenario = std::make_shared<const Scenario>(std::move(*scenario));
  }
  return checked;
}

CheckedFile check_model(const Value& root, Diagnostics& diagnostics) {
  CheckedFile checked{FileKind::model, {}, nullptr};
  if (const auto model = read_model(root, diagnostics)) {
    checked.summary = fmt::format("{}, {} parameters",
                                  model->is_graph() ? count(model->layers.size() - 1, "layer") : "no layers",
                                  model->parameter_count());
  }
  return checked;
}

CheckedFile check_topology(const Value& root, const std::string& file, Diagnostics& diagnostics) {
  CheckedFile checked{FileKind::topology, {}, nullptr};
  Value no_keys;
  no_keys.kind = ValueKind::map;
  no_keys.file = root.file;
  no_keys.line = root.line;
  no_keys.column = root.column;
  const Cluster cluster = read_topology_file(root, data_name(file), no_keys, diagnostics);
  if (!cluster.topology.workers.empty()) {
    checked.summary = fmt::format("{} on {}, {}", count(cluster.topology.workers.size(), "worker"),
                                  count(static_cast<std::size_t>(cluster.topology.nodes), "node"),
                                  count(cluster.topology.links.size(), "link direction"));
  }
  return checked;
}

CheckedFile check_step_times(const Value& root, const Catalog& catalog, Diagnostics& diagnostics) {
  CheckedFile checked{FileKind::step_times, {}, nullptr};
  const ProfileChoice choice = read_profile_entry(root, catalog, diagnostics);
  if (choice.step_times) checked.summary = count(choice.step_times->points.size(), "step time");
  return checked;
}

}  // namespace

CheckedFile check_text(std::string_view text, const std::string& file, const Catalog& catalog,
                       Diagnostics& diagnostics) {
  // Step times may be JSON, without a schema.
  const bool has_steps = schema_of(text).empty() && text.find("\"steps\"") != std::string_view::npos;
  if (looks_like_json(text, file) && !has_steps) return check_json(text, file, diagnostics);
  Diagnostics own;
  const std::optional<Value> root = parse_document(text, file, own);
  const FileKind kind = root ? kind_of(*root) : FileKind::unknown;
  if (kind == FileKind::scenario) return check_scenario(text, file, catalog, diagnostics);
  CheckedFile checked;
  if (root && kind == FileKind::unknown) {
    own.error(root->where(),
              "is no file that is known here: a scenario has model, profile, batch and cluster; a "
              "model layers or parameters; a topology family or vertices and links; a step-time "
              "profile steps");
  } else if (kind == FileKind::model) {
    checked = check_model(*root, own);
  } else if (kind == FileKind::topology) {
    checked = check_topology(*root, file, own);
  } else if (kind == FileKind::step_times) {
    checked = check_step_times(*root, catalog, own);
  }
  diagnostics.merge(own);
  if (!own.ok()) checked.summary.clear();
  return checked;
}

CheckedFile check_file(const std::filesystem::path& path, const Catalog& catalog, Diagnostics& diagnostics) {
  try {
    return check_text(read_possibly_compressed(path), path.string(), catalog, diagnostics);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    diagnostics.add(error);
    return {};
  }
}

}  // namespace foretrain
