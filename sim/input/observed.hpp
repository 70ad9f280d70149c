// Numbers seen on a real run, for `explain`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.hpp"

namespace foretrain {

struct Observed {
  std::optional<double> step;  // seconds
  std::optional<Rate> network;
  enum class Direction { unknown, each, sum };
  Direction direction = Direction::unknown;  // what the rate counts
  std::optional<double> gpu_busy;
  std::optional<double> processor;  // part of the node's cores that is busy
  std::optional<Bytes> checkpoint;  // size of one
  double tolerance = 0.1;           // relative, of step and network
  std::vector<std::string> open;    // what else is not known: batch, gradients, bandwidth, strategy
};

}  // namespace foretrain
