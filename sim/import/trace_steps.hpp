// A trace's events -> one training step: its items with their times on the device and of the host, and what
// the gradients are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/import/trace_collection.hpp"
#include "sim/training/step_graph.hpp"

namespace foretrain {

// Kernels that one operator (forward), one node of the backward graph or one part of the update launched;
// seconds.
struct TracedItem {
  std::string name;
  Phase phase = Phase::forward;
  bool is_before = false;  // of the zeroing of gradients
  bool is_copy = false;    // DDP's, of gradients into their buckets and back
  double start = 0;        // of the host, microseconds in the trace
  double device = 0;
  double host = 0;  // until the next item begins, without waiting
  int launches = 0;
};

struct TracedGradient {
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
  int ready = 0;  // index among the items of the backward pass
};

struct TracedStep {
  std::vector<TracedItem> items;                         // in the order of their launches
  std::vector<TracedGradient> gradients;                 // in the order in which they are ready
  double begin = 0, end = 0;                             // microseconds
  double traced = 0, host = 0, device = 0, waiting = 0;  // seconds
  double exposed = 0;                                    // seconds of collectives that no kernel ran beside
  std::int64_t events = 0;                               // of the host, that the profiler took time for
  int kernels = 0;
  bool is_marked = false;  // by the profiler's step marks
};

struct TracedJob {
  std::vector<TracedStep> steps;
  double gap = 0, latency = 0;  // seconds: between kernels in a full queue; from a launch to an idle device
  double profiler = 0;          // seconds of the host that the profiler takes for one event, estimated
  std::string optimizer;        // "SGD"; empty where the trace does not say
  std::optional<std::int64_t> batch;
  double outside = 0;  // share of the device's time that no step launched
};

// Throws Error(input) where no step launched a kernel; `file` names it.
TracedJob traced_steps(const TraceCollection& trace, const std::string& file);

}  // namespace foretrain
