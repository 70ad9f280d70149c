// Workers that never communicate: the ideal against which strategies are held.
#include "sim/training/strategies.hpp"

namespace foretrain {

StepGraph independent_step_graph(const StrategyInput& input) {
  StepGraph graph;
  graph.programs.push_back(compute_program(input));
  graph.program_of_rank.assign(static_cast<std::size_t>(input.workers), 0);
  return graph;
}

}  // namespace foretrain
