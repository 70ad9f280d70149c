#include "execute/reprediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "execute/distance.hpp"
#include "execute/recorded_scenario.hpp"
#include "sim/base/error.hpp"
#include "sim/base/sha256.hpp"
#include "sim/input/profile_join.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/input/sequence_lengths.hpp"
#include "sim/job/predict_job.hpp"
#include "sim/training/prediction_kind.hpp"

namespace foretrain {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string first_of(const std::vector<Diagnostic>& findings) {
  return findings.empty() ? "" : findings.front().text();
}

// Of the links that gradients cross: those between nodes where there are several, else all.
double slowest_link(const Topology& topology) {
  double slowest = 0;
  for (const Link& link : topology.links) {
    if (topology.nodes > 1 && link.kind != LinkKind::network) continue;
    const double rate = link.rate.bytes_per_second();
    if (slowest == 0 || rate < slowest) slowest = rate;
  }
  return slowest;
}

// A setting of a profile whose file has gone from where it was, with the one of that name beside the record.
std::string beside(const fs::path& record, const std::string& setting) {
  constexpr std::string_view key = "profile=";
  if (!setting.starts_with(key)) return setting;
  const fs::path named = setting.substr(key.size());
  const fs::path moved = fs::absolute(record).parent_path() / named.filename();
  std::error_code error;
  const bool has_moved = !fs::exists(named, error) && fs::exists(moved, error);
  return has_moved ? std::string(key) + moved.string() : setting;
}

std::string how_of(const Scenario& scenario) {
  std::string how;
  if (scenario.lengths) how = name_of(scenario.lengths->batching);
  for (const ResolvedInput& input : scenario.inputs) {
    if (input.path == "sequence" && !input.is_default) how = "x" + input.value;
  }
  if (scenario.execution.cuda_graph) how += how.empty() ? "captured" : ", captured";
  return how;
}

// Where a profile that the command line names is of another device than the run's.
std::string device_caveat(const Scenario& scenario, const Machine& run) {
  if (!scenario.profile) return "";
  const std::string device = device_of(*scenario.profile), own = device_of(run);
  if (device.empty() || own.empty() || device == own) return "";
  return fmt::format("predicted now for another device: the profile is of {}, the run of {}", device, own);
}

}  // namespace

Scenario scenario_of_model(const Catalog& catalog, const std::string& model, int gpus,
                           std::int64_t sequence) {
  std::string text = fmt::format(
      "model: {}\nprofile: {{ steps: [[1, 1 ms]] }}\nbatch: {{ per_worker: 1 }}\n"
      "cluster: {{ topology: nvlink-node, gpus_per_node: {} }}\n",
      model, gpus);
  if (sequence > 0) text += fmt::format("sequence: {}\n", sequence);
  Diagnostics diagnostics;
  auto scenario = parse_scenario(text, "model '" + model + "'", catalog, {}, diagnostics);
  diagnostics.throw_errors();
  scenario->warnings.clear();
  return std::move(*scenario);
}

const std::map<std::string, std::string>& Repredictor::profiles_in(const fs::path& folder) {
  const auto [found, is_new] = profiles_.try_emplace(folder);
  if (!is_new) return found->second;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool is_json = name.ends_with(".json") || name.ends_with(".json.gz");
    if (is_json && name.find("profile") != std::string::npos && at->is_regular_file(error)) {
      found->second.emplace(sha256(bytes_of(at->path())), fs::absolute(at->path()).string());
    }
  }
  return found->second;
}

std::string Repredictor::profile_by_digest(const fs::path& record, const std::string& digest) {
  if (digest.empty()) return "";
  fs::path folder = fs::absolute(record).parent_path();
  constexpr int levels = 3;
  for (int level = 0; level < levels; ++level, folder = folder.parent_path()) {
    for (const fs::path& place : {folder, folder / "profiles"}) {
      const auto& known = profiles_in(place);
      if (const auto found = known.find(digest); found != known.end()) return found->second;
    }
  }
  return "";
}

std::optional<Scenario> Repredictor::scenario_of(const FiledRecord& filed, std::string& problem) {
  const RunRecord& record = filed.record;
  if (record.scenario_yaml.empty()) return recorded_scenario(record, records_, catalog_, problem);
  Overrides overrides(record.overrides.begin(), record.overrides.end());
  const std::string own = profile_.empty() ? profile_by_digest(filed.file, record.profile_digest) : profile_;
  if (!own.empty()) {
    overrides.emplace_back("profile=" + own);
  } else {
    for (Override& each : overrides) each.text = beside(filed.file, each.text);
  }
  // Files that the scenario names stand beside the record, or still where the scenario was read.
  Diagnostics diagnostics;
  auto scenario = parse_scenario(record.scenario_yaml, filed.file, catalog_, overrides, diagnostics);
  std::error_code error;
  if (!scenario && fs::exists(record.scenario_file, error)) {
    Diagnostics there;
    scenario = parse_scenario(record.scenario_yaml, record.scenario_file, catalog_, overrides, there);
  }
  if (!scenario) problem = first_of(diagnostics.errors());
  return scenario;
}

std::string Repredictor::kind_without_profile(const FiledRecord& filed) {
  const RunRecord& record = filed.record;
  Overrides overrides(record.overrides.begin(), record.overrides.end());
  overrides.emplace_back("profile={ steps: [[1, 1 ms]] }");
  Diagnostics unused;
  auto scenario = parse_scenario(record.scenario_yaml, filed.file, catalog_, overrides, unused);
  if (!scenario) return "";
  auto profile = std::make_shared<Profile>();
  profile->device = record.machine.compute_capability.empty() ? "cpu" : "cuda";
  scenario->profile = std::move(profile);
  scenario->step_times = nullptr;
  return kind_of(*scenario);
}

Reprediction Repredictor::operator()(const FiledRecord& filed) {
  Reprediction out;
  try {
    const auto scenario = scenario_of(filed, out.problem);
    if (!scenario) {
      if (filed.record.prediction) out.kind = kind_without_profile(filed);
      return out;
    }
    out.how = how_of(*scenario);
    out.kind = kind_of(*scenario);
    JobOptions options;
    options.remedies = false;
    options.baseline = false;
    Result result = predict_job(*scenario, options);
    out.step = result.step.time;
    out.low = result.step.low;
    out.high = result.step.high;
    out.gradient_bytes = result.communication.bytes_per_worker;
    out.slowest_link = slowest_link(scenario->cluster.topology);
    out.distance = distance_of(*scenario, filed.record.machine);
    if (!profile_.empty()) out.caveat = device_caveat(*scenario, filed.record.machine);
    out.job = std::move(result.job);
  } catch (const Error& error) {
    out.problem = first_of(error.diagnostics());
    if (out.problem.empty()) out.problem = error.what();
  }
  return out;
}

}  // namespace foretrain
