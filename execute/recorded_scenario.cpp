#include "execute/recorded_scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/training/parameter_list.hpp"

namespace foretrain {
namespace {

// Median steps of one worker by batch.
std::map<std::int64_t, double> one_worker_steps(const RunRecord& of, std::span<const FiledRecord> records) {
  std::map<std::int64_t, std::vector<double>> measured;
  for (const FiledRecord& each : records) {
    const RunRecord& r = each.record;
    const bool alike = r.workers == 1 && r.model == of.model && r.precision == of.precision &&
                       r.source == of.source && r.sequence == of.sequence && r.machine.gpu == of.machine.gpu;
    const bool own = of.workers == 1 && r.batch_per_worker == of.batch_per_worker;
    const MeasuredStep step = measured_step(r);
    if (alike && !own && step.steps > 0 && step.median > 0)
      measured[r.batch_per_worker].push_back(step.median);
  }
  std::map<std::int64_t, double> steps;
  for (auto& [batch, medians] : measured) {
    std::sort(medians.begin(), medians.end());
    steps[batch] = medians[medians.size() / 2];
  }
  return steps;
}

Model model_of(const RunRecord& record) {
  std::vector<ParameterDescription> parameters;
  for (const ParameterRecord& each : record.parameters) {
    // A scalar is a tensor of one element.
    parameters.push_back(
        {each.name, each.shape.empty() ? Shape{1} : Shape(each.shape.begin(), each.shape.end()), {}});
  }
  return list_of_parameters(record.model, parameters);
}

std::string cluster_of(const RunRecord& record) {
  if (record.nodes > 1) {
    // Latency of a TCP message over a switch: assumed.
    return fmt::format(
        "{{ topology: ethernet-nodes, nodes: {}, gpus_per_node: {}, "
        "network: {{ bandwidth: {} GB/s, latency: 15 us, transport: tcp }} }}",
        record.nodes, record.workers / record.nodes, record.line_rate / 1e9);
  }
  if (record.machine.gpu.empty()) return fmt::format("{{ topology: one-node, workers: {} }}", record.workers);
  return fmt::format("{{ topology: nvlink-node, gpus_per_node: {} }}", record.workers);
}

std::string what_is_missing(const RunRecord& record, bool any_step) {
  if (record.parameters.empty()) return "the record holds no scenario and no parameters";
  if (!any_step)
    return "the record holds no scenario, and no other record has steps of one worker with this model";
  if (record.nodes > 1 && record.line_rate <= 0)
    return "the record holds no scenario and no line rate of its network";
  if (record.workers % record.nodes != 0) return "the record's workers do not fill its nodes evenly";
  return "";
}

}  // namespace

std::optional<Scenario> recorded_scenario(const RunRecord& record, std::span<const FiledRecord> records,
                                          const Catalog& catalog, std::string& problem) {
  const std::map<std::int64_t, double> steps = one_worker_steps(record, records);
  problem = what_is_missing(record, !steps.empty());
  if (!problem.empty()) return std::nullopt;
  std::string points;
  for (const auto& [batch, seconds] : steps) {
    points += fmt::format("{}[{}, {} s]", points.empty() ? "" : ", ", batch, seconds);
  }
  const bool half = std::all_of(record.parameters.begin(), record.parameters.end(),
                                [](const ParameterRecord& each) { return each.element == "bf16"; });
  const std::string kind = record.workers == 1 || record.strategy.empty() ? "ddp" : record.strategy;
  const std::string text = fmt::format(
      "model: {{ parameters: 1 }}\nprofile: {{ steps: [{}] }}\nbatch: {{ per_worker: {} }}\ncluster: {}\n"
      "strategy: {{ kind: {}, gradients: {} }}\n",
      points, record.batch_per_worker, cluster_of(record), kind, half ? "bf16" : "fp32");
  Diagnostics diagnostics;
  auto scenario = parse_scenario(text, "the scenario made of the record", catalog, {}, diagnostics);
  if (!scenario) {
    problem =
        diagnostics.errors().empty() ? "the record describes no scenario" : diagnostics.errors()[0].text();
    return std::nullopt;
  }
  scenario->model = std::make_shared<const Model>(model_of(record));
  scenario->name = record.scenario_name;
  return scenario;
}

}  // namespace foretrain
