// All that is measured of one model at one batch and precision on one device.
#pragma once

#include <cstdint>
#include <vector>

#include "calibrate/checks.hpp"
#include "calibrate/session.hpp"
#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

struct ModelRunOptions {
  std::int64_t batch = 1;
  Precision precision = Precision::fp32;
  std::uint64_t seed = 1;
  double seconds = 6;    // of wall clock, plans' search included as far as it goes
  double event_gap = 0;  // LaunchCosts::event_gap
  double least_soak = 0.3, most_soak = 3;
};

struct ModelRun {
  std::vector<OperatorEntry> operators;  // one a layer; fused layers have no launches
  StepEntry step;
  OptimizerEntry optimizer;
  std::vector<StepWorkEntry> step_work;
  CheckRow check;
  std::vector<double> device_deviations, host_deviations;  // logarithms over the median
  double backward = 0;                                     // seconds of the backward pass on the device
  bool throttled = false;
  std::string throttle_reason;
  std::vector<std::string> warnings;
};

// Builds the model, soaks, measures. Where the loss runs to infinity the learning rate is lowered and all is
// measured again, with a warning. Throws Error where the backend does (out of memory among others).
ModelRun measure_model(Session& session, device::Backend& backend, int device, const Model& model,
                       const ModelRunOptions& options);

// Options to build a model as calibration does: with the model's own optimizer, as `run` has it, for a device
// at its power cap is slower on numbers that have not been trained (docs/validation.md, vgg16).
device::BuildOptions build_options(const Model& model, std::int64_t batch, Precision precision,
                                   std::uint64_t seed);

}  // namespace foretrain::calibrate
