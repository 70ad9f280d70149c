#include "execute/job_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

std::int64_t updates_in(double epochs, double updates_an_epoch) {
  return std::max<std::int64_t>(1, std::llround(epochs * updates_an_epoch));
}

}  // namespace

std::int64_t JobPlan::updates() const {
  std::int64_t total = 0;
  for (const TrainingPhase& phase : phases) total += phase.updates;
  return total;
}

std::optional<JobPlan> job_plan(const Scenario& scenario) {
  if (!scenario.job) return std::nullopt;
  if (!scenario.dataset_samples) {
    throw Error(ErrorKind::input, "a job needs dataset.samples, to know what an epoch is");
  }
  double an_epoch =
      static_cast<double>(*scenario.dataset_samples) / static_cast<double>(scenario.batch_global);
  if (scenario.job->last_batch == LastBatch::keep) an_epoch = std::ceil(an_epoch);
  if (scenario.job->last_batch == LastBatch::drop) an_epoch = std::floor(an_epoch);
  JobPlan plan;
  TrainingPhase phase;
  phase.updates = updates_in(scenario.job->epochs, an_epoch);
  phase.batch = scenario.batch_global;
  phase.workers = static_cast<int>(scenario.cluster.topology.workers.size());
  plan.phases.push_back(phase);
  if (scenario.job->evaluate && scenario.job->evaluate->every_epochs > 0) {
    plan.evaluate_every = updates_in(scenario.job->evaluate->every_epochs, an_epoch);
    plan.evaluation_samples = scenario.job->evaluate->samples;
  }
  if (scenario.job->checkpoint && scenario.job->checkpoint->every_epochs > 0) {
    plan.checkpoint_every = updates_in(scenario.job->checkpoint->every_epochs, an_epoch);
  }
  return plan;
}

Scenario with_phase(const Scenario& scenario, const TrainingPhase& phase) {
  if (phase.workers < 1 || phase.batch % phase.workers != 0) {
    throw Error(ErrorKind::input,
                fmt::format("a batch of {} cannot be dealt out to {} workers", phase.batch, phase.workers));
  }
  Scenario out = scenario;
  Topology& topology = out.cluster.topology;
  if (static_cast<std::size_t>(phase.workers) > topology.workers.size()) {
    throw Error(ErrorKind::input, fmt::format("a phase wants {} workers, the cluster has {}", phase.workers,
                                              topology.workers.size()));
  }
  // Workers fill nodes in order.
  if (static_cast<std::size_t>(phase.workers) < topology.workers.size()) {
    topology.workers.resize(static_cast<std::size_t>(phase.workers));
    topology.nodes = 1;
    for (int worker : topology.workers) {
      topology.nodes = std::max(topology.nodes, topology.vertices[static_cast<std::size_t>(worker)].node + 1);
    }
    topology.gpus_per_node = std::min(topology.gpus_per_node, phase.workers);
  }
  out.batch_global = phase.batch;
  out.batch_per_worker = phase.batch / phase.workers;
  if (phase.learning_rate) out.optimizer.learning_rate = *phase.learning_rate;
  return out;
}

}  // namespace foretrain
