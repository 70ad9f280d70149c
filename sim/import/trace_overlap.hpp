// What of a trace's collectives no kernel ran beside.
#pragma once

#include <utility>
#include <vector>

#include "sim/import/trace_collection.hpp"

namespace foretrain {

class TraceOverlap {
 public:
  // `trace` is sorted and outlives this.
  explicit TraceOverlap(const TraceCollection& trace);

  // Microseconds. A collective takes as long as the shortest of its kind, ranks and size, up to its end:
  // before, it waited for a rank that was late.
  double exposed(const DeviceActivity& collective) const;

 private:
  double beside_kernels(double begin, double end) const;

  std::vector<double> shortest_;                    // of each collective of the trace
  std::vector<std::pair<double, double>> kernels_;  // when any runs; they do not touch
};

}  // namespace foretrain
