// A rank's program as the replay reads it, thousands of times an operation: flat, with what is the same for
// all ranks of one host speed worked out once.
#pragma once

#include <cstdint>
#include <span>
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
  Time host;          // of the host thread, to issue all launches
  Time first;         // until the first of them is issued
  double device = 0;  // picoseconds on the stream, alone
  std::int32_t launches = 1;
  std::int32_t group = -1;  // of a collective
  std::uint32_t after_begin = 0, after_end = 0;
  std::uint8_t stream = 0;
};

class ReplayProgram {
 public:
  ReplayProgram(const RankProgram& program, double host_factor);

  int size() const { return static_cast<int>(steps_.size()); }
  const ReplayStep& operator[](int place) const { return steps_[static_cast<std::size_t>(place)]; }
  // Operations that must have finished before this one.
  std::span<const std::int32_t> after(const ReplayStep& step) const {
    return std::span(after_).subspan(step.after_begin, step.after_end - step.after_begin);
  }
  // Those of one stream, in order.
  std::span<const std::int32_t> places(int stream) const { return places_[stream]; }
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
  int last_compute_ = -1;
};

}  // namespace foretrain
