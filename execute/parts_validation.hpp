// The parts of a step against the whole: steps of one worker predicted from layers timed in context, held
// against steps that calibration measured in runs of their own. Nothing is scaled to fit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "execute/validation.hpp"
#include "sim/input/scenario.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// A data-parallel step on GPUs of one node that calibration measured for validation alone.
struct OverlapMeasurement {
  std::string model;
  Precision precision = Precision::fp32;
  std::int64_t batch = 0;
  int ranks = 0;
  double step = 0, p05 = 0, p95 = 0;  // seconds; median and percentiles of single steps
};

// Times in seconds.
struct PartsRow {
  std::string kind;  // "whole", "left_out", "overlap"
  std::string model;
  Precision precision = Precision::fp32;
  std::int64_t batch = 0;
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

// One worker of the model on the profile's device; precision, batch and profile are set by the caller. Throws
// Error where the model is not known.
using ScenarioOfModel = std::function<Scenario(const std::string& model, int gpus)>;

// "whole": each step in the profile from all of its operators. "left_out": the same from a profile without
// this batch, where two others remain. "overlap": each measurement, with and without interference.
PartsValidation validate_parts(const std::shared_ptr<const Profile>& profile,
                               std::span<const OverlapMeasurement> overlaps,
                               const ScenarioOfModel& scenario_of);

}  // namespace foretrain
