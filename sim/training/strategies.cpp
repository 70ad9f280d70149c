#include "sim/training/strategies.hpp"

#include <fmt/format.h>

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

RankProgram compute_program(const StepTimes& times) {
  RankProgram program;
  for (const auto* items : {&times.before, &times.forward, &times.backward, &times.update}) {
    for (const StepItem& item : *items) program.operations.push_back(kernel_of(item));
  }
  return program;
}

}  // namespace foretrain
