// A rank's program as the replay reads it, thousands of times an operation: flat, and made once for all
// replays of a step.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/training/step_graph.hpp"

namespace foretrain {

// Picoseconds of work, at least 0, to the nearest; beyond the range of Time an error.
inline Time rounded_work(double picoseconds) {
  constexpr double exact = 4503599627370496.0;  // 2^52: below it adding a half is exact enough to round by
  if (picoseconds >= 0 && picoseconds < exact) return Time(static_cast<std::int64_t>(picoseconds + 0.5));
  return Time(detail::checked_round(picoseconds, detail::TimeTag::quantity, detail::TimeTag::range));
}

struct ReplayStep {
  double device = 0;  // picoseconds on the stream, alone
  std::int32_t launches = 1;
  std::int32_t group = -1;  // of a collective
  std::uint32_t after_begin = 0, after_end = 0;
  std::int32_t order = 0;  // among those of its stream
  std::uint8_t stream = 0;
  std::uint8_t wakes = 0;  // a bit for each other stream of which an operation waits for this one
};

// An operation of the compute stream, as a run of kernels needs it.
struct ChainedKernel {
  double device = 0;
  std::int32_t place = 0, launches = 1;
  bool waits = false;     // a collective, or for another stream
  bool ends_run = false;  // another stream waits for it, or the step ends with it
};

class ReplayProgram {
 public:
  explicit ReplayProgram(const RankProgram& program);

  int size() const { return static_cast<int>(steps_.size()); }
  const ReplayStep& operator[](int place) const { return steps_[static_cast<std::size_t>(place)]; }
  // Operations of other streams that must have finished before this one.
  std::span<const std::int32_t> after(const ReplayStep& step) const {
    return std::span(after_).subspan(step.after_begin, step.after_end - step.after_begin);
  }
  // Those of one stream, in order.
  std::span<const std::int32_t> places(int stream) const { return places_[stream]; }
  std::span<const ChainedKernel> kernels() const { return kernels_; }  // of the compute stream, in order
  // The last of the compute stream ends a step; -1: none.
  int last_compute() const { return last_compute_; }
  const Operation& operation(int place) const {
    return program_->operations[static_cast<std::size_t>(place)];
  }

 private:
  const RankProgram* program_;
  std::vector<ReplayStep> steps_;
  std::vector<std::int32_t> after_;
  std::vector<std::int32_t> places_[stream_count];
  std::vector<ChainedKernel> kernels_;
  int last_compute_ = -1;
};

// An operation as its host issues it.
struct HostOperation {
  Time host;  // to issue all its launches
  std::int32_t launches = 1;
  std::uint32_t stream = 0;  // its bit
};

// The operations of a program on a host of one speed.
class HostTimes {
 public:
  HostTimes(const RankProgram& program, double factor);
  std::span<const HostOperation> operations() const { return operations_; }
  // From the first launch of the operation to the last.
  Time between(int place) const { return between_[static_cast<std::size_t>(place)]; }

 private:
  std::vector<HostOperation> operations_;
  std::vector<Time> between_;
};

using HostTimesOfPrograms = std::map<std::pair<int, double>, HostTimes>;  // by program and factor

}  // namespace foretrain
