#include "sim/training/strategies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

struct Registered {
  StrategyKind kind;
  StepGraph (*build)(const StrategyInput&);
};

constexpr std::array registered{Registered{StrategyKind::ddp, ddp_step_graph},
                                Registered{StrategyKind::independent, independent_step_graph},
                                Registered{StrategyKind::parameter_server, parameter_server_step_graph}};

}  // namespace

StepGraph build_step_graph(StrategyKind kind, const StrategyInput& input) {
  for (const Registered& each : registered) {
    if (each.kind == kind) {
      StepGraph graph = each.build(input);
      // Shares of an eighth follow the queue closely enough: finer ones change no shipped prediction by 0.1
      // %.
      for (RankProgram& program : graph.programs)
        split_long_operations(program, std::max(1, input.queue_depth / 8));
      validate(graph);
      return graph;
    }
  }
  throw Error(ErrorKind::input, fmt::format("strategy '{}' is not simulated", name_of(kind)));
}

Operation kernel_of(const StepItem& item) {
  Operation operation;
  operation.name = item.name;
  operation.phase = item.phase;
  operation.host = Time::seconds(item.host);
  operation.device = Time::seconds(item.device);
  operation.launches = item.launches;
  return operation;
}

namespace {

void append(const std::vector<StepItem>& items, RankProgram& program) {
  for (const StepItem& item : items) program.operations.push_back(kernel_of(item));
}

}  // namespace

ProcessGroup all_workers(int workers) {
  ProcessGroup world;
  world.name = "data";
  for (int rank = 0; rank < workers; ++rank) world.ranks.push_back(rank);
  return world;
}

Operation collective_of(const StrategyInput& input, CollectiveKind kind, std::size_t bucket, Bytes bytes,
                        int root, std::vector<int> after) {
  Operation operation;
  operation.name = fmt::format("{} bucket {}", name_of(kind), bucket);
  operation.phase = Phase::communication;
  operation.stream = StreamId::communication;
  operation.host = input.collective_host;
  operation.launches = 1;
  operation.after = std::move(after);
  operation.group = 0;
  operation.kind = kind;
  operation.bytes = bytes;
  operation.root = root;
  return operation;
}

RankProgram program_until_update(const StrategyInput& input, CollectiveKind kind,
                                 std::vector<int>& collectives) {
  const StepTimes& times = *input.times;
  RankProgram program;
  append(times.before, program);
  for (int micro = 1; micro < input.accumulation; ++micro) {
    append(times.forward, program);
    append(times.backward, program);
  }
  append(times.forward, program);
  std::size_t next = 0;
  for (std::size_t i = 0; i < times.backward.size(); ++i) {
    program.operations.push_back(kernel_of(times.backward[i]));
    const int last = static_cast<int>(program.operations.size()) - 1;
    for (; next < input.buckets.size() && input.buckets[next].ready == static_cast<int>(i); ++next) {
      collectives.push_back(static_cast<int>(program.operations.size()));
      const Bucket& bucket = input.buckets[next];
      const int server = static_cast<int>(next) % input.servers;
      if (!bucket.is_sparse()) {
        program.operations.push_back(collective_of(input, kind, next, bucket.bytes, server, {last}));
        continue;
      }
      if (kind != CollectiveKind::all_reduce)
        throw Error(ErrorKind::input, "embedding_gradient: sparse tables are simulated with kind ddp alone");
      const Bytes own = bucket.sparse_bytes(times.batch * input.accumulation);
      program.operations.push_back(collective_of(input, CollectiveKind::all_gather, next,
                                                 own * static_cast<double>(input.workers), 0, {last}));
    }
  }
  return program;
}

void append_update(const StrategyInput& input, const std::vector<int>& after, RankProgram& program,
                   double part) {
  bool first = true;
  for (const StepItem& item : input.times->update) {
    Operation operation = kernel_of(item);
    operation.device = Time::seconds(part * item.device);
    if (first && !after.empty()) {
      operation.after = after;
      operation.device += input.event_wait;
    }
    first = false;
    program.operations.push_back(operation);
  }
}

RankProgram compute_program(const StrategyInput& input) {
  StrategyInput alone = input;
  alone.buckets.clear();
  std::vector<int> none;
  RankProgram program = program_until_update(alone, CollectiveKind::all_reduce, none);
  append_update(input, {}, program);
  return program;
}

}  // namespace foretrain
