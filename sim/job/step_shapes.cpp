#include "sim/job/step_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/base/error.hpp"
#include "sim/input/job.hpp"
#include "sim/training/predict.hpp"
#include "sim/training/replay.hpp"
#include "sim/training/step_simulation.hpp"
#include "sim/training/strategies.hpp"

namespace foretrain {

namespace {

std::size_t available_for(const Scenario& scenario, int workers) {
  const std::size_t available = scenario.cluster.topology.workers.size();
  if (workers < 1 || static_cast<std::size_t>(workers) > available) {
    throw Error(ErrorKind::input,
                fmt::format("a phase wants {} workers, the cluster has {}", workers, available));
  }
  return available;
}

ShapeTime shape_of(const StepPrediction& step) {
  return {step.mean, step.p50, step.low, step.high, step.p05, step.p95};
}

}  // namespace

Scenario with_workers(const Scenario& scenario, int workers, std::int64_t batch) {
  const std::size_t available = available_for(scenario, workers);
  Scenario out = scenario;
  Topology& topology = out.cluster.topology;
  // Workers fill nodes in order.
  if (static_cast<std::size_t>(workers) < available) {
    topology.workers.resize(static_cast<std::size_t>(workers));
    topology.nodes = 1;
    for (int worker : topology.workers) {
      topology.nodes = std::max(topology.nodes, topology.vertices[static_cast<std::size_t>(worker)].node + 1);
    }
    topology.gpus_per_node = std::min(topology.gpus_per_node, workers);
    out.strategy.servers = std::min(out.strategy.servers, workers);
  }
  out.batch_global = batch;
  out.batch_per_worker = share_of(batch, workers);
  return out;
}

const ShapeTime& StepShapes::exact(std::int64_t share, int workers) {
  const auto [found, is_new] = exact_.try_emplace({workers, share});
  if (is_new) {
    const std::size_t available = available_for(scenario_, workers);
    StepChange change;
    change.batch_per_worker = share;
    if (static_cast<std::size_t>(workers) < available) change.workers = workers;
    const StepPrediction step = predict_step(scenario_, change, network_);
    events_ += step.events;
    found->second = shape_of(step);
  }
  return found->second;
}

void StepShapes::remember(std::int64_t share, int workers, const StepPrediction& step) {
  exact_[{workers, share}] = shape_of(step);
}

ShapeTime StepShapes::of(std::int64_t batch, int workers, bool among_many) {
  const std::int64_t share = share_of(batch, workers);
  constexpr std::int64_t finest = 64, nodes_an_octave = 32;
  if (!among_many || share < finest) return exact(share, workers);
  const auto spacing =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(share))) / nodes_an_octave;
  const std::int64_t below = share / spacing * spacing;
  if (below == share) return exact(share, workers);
  const ShapeTime a = exact(below, workers), b = exact(below + spacing, workers);
  const double t = static_cast<double>(share - below) / static_cast<double>(spacing);
  auto between = [t](double x, double y) { return x + t * (y - x); };
  return {between(a.mean, b.mean), between(a.median, b.median), between(a.low, b.low),
          between(a.high, b.high), between(a.p05, b.p05),       between(a.p95, b.p95)};
}

double StepShapes::passes(std::int64_t batch, std::int64_t count) {
  const ForwardTime time = forward(batch);
  return time.begin + static_cast<double>(count) * time.pass;
}

StepShapes::ForwardTime StepShapes::forward(std::int64_t batch) {
  const auto [found, is_new] = forward_.try_emplace(batch);
  if (!is_new) return found->second;
  const Model* model = scenario_.model.get();
  Model listed;
  StepTimes times;
  ReplayInput replayed;
  if (scenario_.profile) {
    times = *shared_step_times(scenario_.model, scenario_.profile, scenario_.precision, batch,
                               scenario_.optimizer);
    for (const StepItem& item : times.before) {
      if (item.name == "cast_weights") found->second.begin += std::max(item.device, item.host);
    }
    std::erase_if(times.before, [](const StepItem& item) {
      return item.name == "zero_gradients" || item.name == "cast_weights";
    });
  } else {
    if (model == nullptr) {
      listed = parameters_of_size(scenario_.step_times->gradient_bytes);
      model = &listed;
    }
    times = step_times(*model, *scenario_.step_times, batch);
  }
  times.backward.clear();
  times.update.clear();
  StrategyInput strategy;
  strategy.times = &times;
  const StepGraph graph = build_step_graph(StrategyKind::independent, strategy);
  replayed = symmetric_replay(graph);
  if (scenario_.profile && !scenario_.profile->launches.empty()) {
    const LaunchCosts& costs = scenario_.profile->launches.back();
    replayed.launch_latency = Time::seconds(std::max(0.0, costs.latency.median));
    if (costs.queue_depth > 0) replayed.queue_depth = costs.queue_depth;
  }
  constexpr int enough_to_settle = 8;
  replayed.steps = enough_to_settle;
  const ReplayResult result = replay(replayed);
  events_ += result.events;
  found->second.pass = result.classes[static_cast<std::size_t>(result.slowest)].duration().in_seconds();
  return found->second;
}

}  // namespace foretrain
