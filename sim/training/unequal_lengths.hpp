// Steps whose workers have rows of unequal lengths: a row costs as much as the longest of its batch, and each
// worker draws its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "sim/input/scenario.hpp"
#include "sim/input/sequence_lengths.hpp"

namespace foretrain {

struct LengthDraw {
  std::vector<std::int64_t> rows;  // positions of each worker's rows in one step
  std::int64_t longest() const;
};

struct DrawnLengths {
  std::vector<LengthDraw> draws;
  double useful = 0;         // positions of a row that are no padding, in the mean
  double padded = 0;         // positions of a row
  double samples_a_row = 1;  // above 1 where they are packed
};

// `batch`: rows of a worker. The same seed gives the same draws.
DrawnLengths draw_lengths(const SequenceLengths& lengths, std::int64_t batch, int workers, int draws,
                          std::uint64_t seed);

// A scenario for each draw: the model at the draw's longest row, and workers with shorter ones faster by the
// ratio of the times of their kernels. Throws Error (unavailable) where the profile lacks the lengths.
class UnequalSteps {
 public:
  static constexpr int draws = 21;
  UnequalSteps(const Scenario& scenario, std::int64_t batch, int workers, std::uint64_t seed);

  const DrawnLengths& drawn() const { return drawn_; }
  Scenario scenario_of(const LengthDraw& draw) const;
  // Seconds by which the mean worker's kernels end before the slowest one's.
  double waiting(const LengthDraw& draw) const;

 private:
  double compute(std::int64_t length) const;  // seconds of a worker's kernels a step

  const Scenario& scenario_;
  std::int64_t batch_;
  int workers_;
  DrawnLengths drawn_;
  std::map<std::int64_t, double> measured_;  // compute at some lengths
};

}  // namespace foretrain
