// Gradients are summed on servers, which are the first ranks, bucket by bucket beside the backward pass; each
// server updates the parameters of its buckets once all sums are there, and sends their weights to all. The
// next step waits for the weights.
#include <algorithm>
#include <optional>

#include "sim/training/strategies.hpp"

namespace foretrain {
namespace {

int last_on_compute(const RankProgram& program) {
  int last = static_cast<int>(program.operations.size()) - 1;
  while (program.operations[static_cast<std::size_t>(last)].stream != StreamId::compute) --last;
  return last;
}

std::int64_t elements_of(const StrategyInput& input, const Bucket& bucket) {
  std::int64_t elements = -bucket.skipped - bucket.left;
  for (int parameter : bucket.parameters) {
    elements += input.times->parameter_elements.at(static_cast<std::size_t>(parameter));
  }
  return elements;
}

// How much of the parameters each server updates.
std::vector<double> parts_of_servers(const StrategyInput& input) {
  std::vector<double> parts(static_cast<std::size_t>(input.servers), 0);
  double all = 0;
  for (std::size_t bucket = 0; bucket < input.buckets.size(); ++bucket) {
    const auto elements = static_cast<double>(elements_of(input, input.buckets[bucket]));
    parts[bucket % parts.size()] += elements;
    all += elements;
  }
  for (double& part : parts) part /= std::max(1.0, all);
  return parts;
}

// `part`: of the parameters, that this rank updates; none on a rank that is no server.
RankProgram program_of(const StrategyInput& input, std::optional<double> part) {
  std::vector<int> sums;
  RankProgram program = program_until_update(input, CollectiveKind::reduce, sums);
  if (part) append_update(input, sums, program, *part);
  // On the other ranks: weights must not arrive while the backward pass still reads the old ones.
  const int before_weights = last_on_compute(program);
  std::vector<int> weights;
  for (std::size_t bucket = 0; bucket < input.buckets.size(); ++bucket) {
    weights.push_back(static_cast<int>(program.operations.size()));
    program.operations.push_back(
        collective_of(input, CollectiveKind::broadcast, bucket,
                      Bytes(elements_of(input, input.buckets[bucket])) * input.bytes_per_weight,
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
  for (const double part : parts_of_servers(used)) graph.programs.push_back(program_of(used, part));
  if (used.servers < used.workers) graph.programs.push_back(program_of(used, std::nullopt));
  for (int rank = 0; rank < used.workers; ++rank) {
    graph.program_of_rank.push_back(std::min(rank, used.servers));
  }
  return graph;
}

}  // namespace foretrain
