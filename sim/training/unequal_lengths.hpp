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

// The draws of a run's steps, which simulator and executor share: each is a function of its number and the
// seed alone.
class LengthDraws {
 public:
  // `batch`: rows of a worker.
  LengthDraws(const SequenceLengths& lengths, std::int64_t batch, std::uint64_t seed);

  std::int64_t row(std::uint64_t draw, int worker) const;
  LengthDraw of_step(std::uint64_t draw, int workers) const;
  // The lengths of the samples in each of a worker's rows; where they are not packed, one a row.
  std::vector<std::vector<std::int64_t>> samples(std::uint64_t draw, int worker) const;
  // The rows that may come, ascending.
  std::vector<std::int64_t> possible_rows() const;
  std::int64_t quantile(double u) const;  // that a share `u` of samples does not pass

 private:
  struct Top {
    double bucket, top;  // what a worker's row is drawn by
  };
  Top top_of(std::uint64_t draw, int worker) const;
  std::vector<std::vector<std::int64_t>> packed(std::uint64_t draw, int worker) const;

  const SequenceLengths& lengths_;
  std::int64_t batch_;
  std::uint64_t seed_;
  std::vector<double> cumulated_;
  double sum_ = 0;
};

struct DrawnLengths {
  std::vector<LengthDraw> draws;
  double useful = 0;         // positions of a row that are no padding, in the mean
  double padded = 0;         // positions of a row
  double samples_a_row = 1;  // above 1 where they are packed
};

// `batch`: rows of a worker. Draws 1, 2, ...: of a run that is not a job the steps that count, after the one
// that fills the device's queue.
DrawnLengths draw_lengths(const SequenceLengths& lengths, std::int64_t batch, int workers, int draws,
                          std::uint64_t seed);

// A scenario for each draw: the model at the draw's longest row, and workers with shorter ones faster by the
// ratio of the times of their kernels. Throws Error (unavailable) where the profile lacks the lengths.
//
// As many draws as a run has steps, where few of them differ; else enough for a median.
class UnequalSteps {
 public:
  static constexpr int many_draws = 100, few_draws = 21;
  static constexpr std::size_t most_different = 64;
  UnequalSteps(const Scenario& scenario, std::int64_t batch, int workers, std::uint64_t seed);

  const DrawnLengths& drawn() const { return drawn_; }
  int draws() const { return static_cast<int>(drawn_.draws.size()); }
  Scenario scenario_of(const LengthDraw& draw) const;
  // Seconds by which the mean worker's kernels end before the slowest one's.
  double waiting(const LengthDraw& draw) const;

 private:
  double compute(std::int64_t length) const;  // seconds of a worker's kernels a step

  const Scenario& scenario_;
  std::int64_t batch_;
  DrawnLengths drawn_;
  std::map<std::int64_t, double> measured_;  // compute at some lengths
};

}  // namespace foretrain
