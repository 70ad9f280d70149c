// Gradients are summed on servers, which are the first ranks, bucket by bucket beside the backward pass; each
// server updates once all sums are there, and sends its buckets' weights to all. The next step waits for the
// weights.
#include <algorithm>

#include "sim/training/strategies.hpp"

namespace foretrain {
namespace {

int last_on_compute(const RankProgram& program) {
  int last = static_cast<int>(program.operations.size()) - 1;
  while (program.operations[static_cast<std::size_t>(last)].stream != StreamId::compute) --last;
  return last;
}

RankProgram program_of(const StrategyInput& input, bool is_server) {
  std::vector<int> sums;
  RankProgram program = program_until_update(input, CollectiveKind::reduce, sums);
  if (is_server) append_update(input, sums, program);
  // On the other ranks: weights must not arrive while the backward pass still reads the old ones.
  const int before_weights = last_on_compute(program);
  std::vector<int> weights;
  for (std::size_t bucket = 0; bucket < input.buckets.size(); ++bucket) {
    std::int64_t elements = -input.buckets[bucket].skipped - input.buckets[bucket].left;
    for (int parameter : input.buckets[bucket].parameters) {
      elements += input.times->parameter_elements.at(static_cast<std::size_t>(parameter));
    }
    weights.push_back(static_cast<int>(program.operations.size()));
    program.operations.push_back(collective_of(input, CollectiveKind::broadcast, bucket,
                                               Bytes(elements) * input.bytes_per_weight,
                                               static_cast<int>(bucket) % input.servers, {before_weights}));
  }
  Operation received;
  received.name = "weights received";
  received.phase = Phase::optimizer;
  received.device = input.event_wait;
  received.launches = 0;
  received.after = weights;
  program.operations.push_back(received);
  return program;
}

}  // namespace

StepGraph parameter_server_step_graph(const StrategyInput& input) {
  if (input.workers == 1) return independent_step_graph(input);
  StrategyInput used = input;
  used.servers =
      std::clamp(std::min(input.servers, static_cast<int>(input.buckets.size())), 1, input.workers);
  StepGraph graph;
  graph.groups.push_back(all_workers(used.workers));
  graph.programs.push_back(program_of(used, true));
  if (used.servers < used.workers) graph.programs.push_back(program_of(used, false));
  for (int rank = 0; rank < used.workers; ++rank) {
    graph.program_of_rank.push_back(rank < used.servers ? 0 : 1);
  }
  return graph;
}

}  // namespace foretrain
