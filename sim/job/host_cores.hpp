// Cores of a node that a job keeps busy.
#pragma once

#include "sim/input/scenario.hpp"
#include "sim/output/result.hpp"

namespace foretrain {

// Whole cores, or workers that take one each: rounded up, a rounding above a whole number is that number. No
// more than a thousand million, in place of what no int holds.
int whole_cores(double cores);

struct CoreNeed {
  double decoding = 0;  // cores that decode, so that the step does not wait
  int launching = 0;    // threads that launch and wait, spinning: each a core
  double proxies = 0;   // of the collectives between nodes: a thread a GPU while one runs
  int total() const;    // the smallest whole number that does not slow the step
};

// Of the fullest node, for the step of the result without its wait for input.
CoreNeed core_need(const Scenario& scenario, const Result& result);

// Cores that are left to decode on the scenario's host; its own number of workers where the host has enough.
int decoding_workers(const Scenario& scenario, const CoreNeed& need);

}  // namespace foretrain
