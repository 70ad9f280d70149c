// The parts of a step against the whole: steps of one worker predicted from layers timed in context, held
// against steps that calibration measured in runs of their own. Nothing is scaled to fit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "execute/validation.hpp"
#include "sim/training/overlap_fit.hpp"

namespace foretrain {

// Times in seconds.
struct PartsRow {
  std::string kind;  // "whole", "left_out", "overlap"
  std::string model;
  Precision precision = Precision::fp32;
  std::int64_t batch = 0, sequence = 0;  // 0: of a model without one
  int workers = 1;
  double measured = 0, measured_p05 = 0, measured_p95 = 0;
  double predicted = 0, low = 0, high = 0;
  std::optional<double> without_interference;           // predicted so; of "overlap"
  std::string limiting;                                 // "gpu", "host", "network"
  bool extrapolated = false;                            // "left_out": the smallest or the largest batch
  std::optional<double> measured_peak, predicted_peak;  // bytes of a GPU's memory

  double error() const { return predicted / measured - 1; }
  bool hit() const { return low <= measured && measured <= high; }
};

struct PartsSummary {
  std::string name;  // "whole", "left_out", "left_out_at_an_end", "overlap", "overlap_without_interference"
  int rows = 0;
  double mean_abs_error = 0, max_abs_error = 0, mean_error = 0, coverage = 0;
};

struct PartsValidation {
  std::string profile;
  std::vector<PartsRow> rows;  // by kind, worst first
  std::vector<PartsSummary> summaries;
  std::vector<std::string> problems;  // what could not be predicted, and why
};

// "whole": each step in the profile from all of its operators. "left_out": the same from a profile without
// this batch, where two others remain. "overlap": each data-parallel step of the profile and of `more`, with
// and without interference; what the profile's other batches say of interference is applied, its own does not
// count.
PartsValidation validate_parts(const std::shared_ptr<const Profile>& profile,
                               std::span<const OverlapEntry> more, const ScenarioOfModel& scenario_of);

}  // namespace foretrain
