#include "sim/input/scenario.hpp"
#include "sim/training/profile.hpp"
#include "sim/training/step_graph.hpp"

namespace foretrain {

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
  }
  return "";
}

const char* name_of(Origin origin) {
  switch (origin) {
    case Origin::measured:
      return "measured";
    case Origin::fitted:
      return "fitted";
    case Origin::assumed:
      return "assumed";
  }
  return "";
}

const char* name_of(StrategyKind kind) {
  switch (kind) {
    case StrategyKind::ddp:
      return "ddp";
    case StrategyKind::parameter_server:
      return "parameter_server";
    case StrategyKind::independent:
      return "independent";
  }
  return "";
}

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::optimizer:
      return "optimizer";
    case Phase::communication:
      return "communication";
    case Phase::input:
      return "input";
  }
  return "";
}

}  // namespace foretrain
