// Data parallelism with bucketed all-reduces that overlap with the backward pass (PyTorch's
// DistributedDataParallel).
#include "sim/training/strategies.hpp"

namespace foretrain {

StepGraph ddp_step_graph(const StrategyInput& input) {
  if (input.workers == 1) return independent_step_graph(input);
  StepGraph graph;
  graph.groups.push_back(all_workers(input.workers));
  std::vector<int> collectives;
  RankProgram program = program_until_update(input, CollectiveKind::all_reduce, collectives);
  append_update(input, collectives, program);
  graph.programs.push_back(std::move(program));
  graph.program_of_rank.assign(static_cast<std::size_t>(input.workers), 0);
  return graph;
}

}  // namespace foretrain
