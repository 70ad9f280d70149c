// The events of a trace that say how a step runs, small enough to hold millions of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/import/trace_reader.hpp"

namespace foretrain {

// Microseconds throughout, as the trace has them.
struct DeviceActivity {
  double start = 0, duration = 0;
  std::int64_t correlation = -1;
  std::uint64_t stream = 0;  // of a device
  int name = 0;
  bool is_kernel = true;  // else a copy or a memset
  int collective = -1;    // index into TraceCollection::collectives
  double bytes = 0;
  double end() const { return start + duration; }
};

struct HostCall {  // of the CUDA runtime or driver
  double start = 0, duration = 0;
  std::int64_t correlation = -1;
  std::uint64_t thread = 0;
  bool waits = false;  // a synchronisation
};

struct HostRange {  // an operator or an annotation
  double start = 0, duration = 0;
  std::uint64_t thread = 0;
  int name = 0;
  int shapes = -1;  // index into TraceCollection::shapes
  double end() const { return start + duration; }
};

struct TraceShapes {
  std::array<std::array<std::int64_t, TraceEvent::most_dimensions>, 2> dimensions{};
  std::array<int, 2> ranks{-1, -1};
};

struct TraceCollective {
  std::string kind;  // as we name it
  std::string element;
  double bytes = 0;
  int ranks = 0;
};

struct TraceCollection {
  std::vector<DeviceActivity> device;
  std::vector<HostCall> calls;
  std::vector<HostRange> operators, annotations;
  std::vector<TraceShapes> shapes;
  std::vector<TraceCollective> collectives;
  std::int64_t negative = 0, huge = 0, without_time = 0, without_correlation = 0;
  std::int64_t host_events = 0;  // that the profiler took time for

  // Events that are not needed are passed over.
  void take(const TraceEvent& event);
  const std::string& name(int index) const { return names_[static_cast<std::size_t>(index)]; }
  // In order of their starts, ends that lie within; correlations across restarts stay as they are.
  void sort();

 private:
  int name_index(std::string_view name);
  std::vector<std::string> names_;
  std::unordered_map<std::string, int> index_;
};

}  // namespace foretrain
