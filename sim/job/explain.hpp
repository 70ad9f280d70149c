// Numbers seen on a real run, held against what a document leaves open: every combination of its readings is
// simulated, and either agrees with all of them or is excluded by one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/input/scenario.hpp"

namespace foretrain {

struct Reading {
  std::string batch;      // "64 a worker"
  std::string gradients;  // "fp32"
  std::string strategy;   // "all-reduce by a ring"
  std::string line;       // "1 Gbit/s as stated", "1.6 Gbit/s, as the traffic seen"
  std::string direction;  // "each", "sum", empty where no traffic was seen
  std::string besides;    // "", "a straggler", "input": what must add to the step
  double step = 0;        // predicted seconds, without what `besides` adds
  double low = 0, high = 0;
  double wire_bytes = 0;  // a step on the busiest node's network and direction
  double wire_busy = 0;   // part of the observed step, at the rate seen; 0 where none was seen
  double gpu_busy = 0;    // predicted
  std::string limiting;   // kind
  bool consistent = false;
  std::string excluded_by;  // the number that does it
  double misfit = 0;        // 0: all agree; ranks the readings
};

struct Explanation {
  std::vector<Reading> readings;  // best first
  std::vector<std::string> verdict;
  std::vector<std::string> measure_next;
  std::vector<std::string> remarks;  // checkpoint, processors
};

// Throws Error (input) where the scenario has no `observed`, or nothing in it to hold readings against.
Explanation explain(const Scenario& scenario);

}  // namespace foretrain
