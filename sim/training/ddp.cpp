// Data parallelism with bucketed all-reduces that overlap with the backward pass (PyTorch's
// DistributedDataParallel).
#include <fmt/format.h>

#include <algorithm>

#include "sim/training/strategies.hpp"

namespace foretrain {
namespace {

ProcessGroup all_workers(int workers) {
  ProcessGroup world;
  world.name = "data";
  for (int rank = 0; rank < workers; ++rank) world.ranks.push_back(rank);
  return world;
}

// The item of the backward pass after which a bucket is complete. Buckets are reduced in their order: one
// that is complete early waits for those before it.
std::vector<int> bucket_ready(const StrategyInput& input) {
  std::vector<int> ready;
  int latest = 0;
  for (const Bucket& bucket : input.buckets) {
    for (int parameter : bucket.parameters) {
      latest = std::max(latest, input.times->gradient_ready.at(static_cast<std::size_t>(parameter)));
    }
    ready.push_back(latest);
  }
  return ready;
}

Operation collective(const StrategyInput& input, CollectiveKind kind, std::size_t bucket, int after) {
  Operation operation;
  operation.name = fmt::format("{} bucket {}", name_of(kind), bucket);
  operation.phase = Phase::communication;
  operation.stream = StreamId::communication;
  operation.host = input.collective_host;
  operation.launches = 1;
  operation.after = {after};
  operation.group = 0;
  operation.kind = kind;
  operation.bytes = input.buckets[bucket].bytes;
  return operation;
}

// Backward with `kinds` enqueued for each bucket as it becomes ready, then the update once all have finished.
StepGraph bucketed(const StrategyInput& input, std::initializer_list<CollectiveKind> kinds) {
  if (input.workers == 1) return independent_step_graph(input);
  StepGraph graph;
  graph.groups.push_back(all_workers(input.workers));
  RankProgram program;
  for (const auto* items : {&input.times->before, &input.times->forward}) {
    for (const StepItem& item : *items) program.operations.push_back(kernel_of(item));
  }
  const std::vector<int> ready = bucket_ready(input);
  std::vector<int> collectives;
  std::size_t next = 0;
  for (std::size_t i = 0; i < input.times->backward.size(); ++i) {
    program.operations.push_back(kernel_of(input.times->backward[i]));
    int last = static_cast<int>(program.operations.size()) - 1;
    for (; next < ready.size() && ready[next] == static_cast<int>(i); ++next) {
      for (CollectiveKind kind : kinds) {
        program.operations.push_back(collective(input, kind, next, last));
        collectives.push_back(static_cast<int>(program.operations.size()) - 1);
      }
    }
  }
  bool first = true;
  for (const StepItem& item : input.times->update) {
    Operation operation = kernel_of(item);
    if (first) {
      operation.after = collectives;
      operation.device += input.event_wait;
      first = false;
    }
    program.operations.push_back(operation);
  }
  graph.programs.push_back(std::move(program));
  graph.program_of_rank.assign(static_cast<std::size_t>(input.workers), 0);
  return graph;
}

}  // namespace

StepGraph ddp_step_graph(const StrategyInput& input) {
  return bucketed(input, {CollectiveKind::all_reduce});
}

// Gradients reduced to a root, updated weights broadcast back: two collectives a bucket instead of one. The
// broadcast carries as many bytes as the reduction.
StepGraph parameter_server_step_graph(const StrategyInput& input) {
  return bucketed(input, {CollectiveKind::reduce, CollectiveKind::broadcast});
}

}  // namespace foretrain
