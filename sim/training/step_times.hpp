// The work of one worker's step as a list of items in issue order, with their times for one batch and where
// the times come from: a profile of operators, or a step-time profile (batch and seconds).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/output/result.hpp"
#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"
#include "sim/training/step_graph.hpp"

namespace foretrain {

class OperatorCurves;

struct StepItem {
  std::string name;  // the layer's; "update", "zero_gradients", ...
  Phase phase = Phase::forward;
  int layer = -1;
  double device = 0, host = 0;  // seconds
  int launches = 0;
};

struct StepTimes {
  std::vector<StepItem> before, forward, backward, update;
  // For every parameter: the item of `backward` after which its gradient is complete.
  std::vector<int> gradient_ready;
  std::vector<std::int64_t> parameter_elements;
  std::int64_t batch = 1;  // of a worker and micro-batch
  Origin origin = Origin::measured;
  // Relative, half widths at 90 %.
  double device_uncertainty = 0, device_faster = 0;  // above; below
  double host_slower = 0, host_faster = 0;
  double workspace_bytes = 0;  // the largest of any layer
  std::vector<Extrapolation> extrapolated;
  std::vector<std::string> warnings;
};

// Whether a profile timed the model itself in this precision: then its operators serve, and no other model's.
bool has_times_of(const Profile& profile, const std::string& model, Precision precision);

// From operators timed in context. Layers that calibration saw fused into a neighbour cost nothing. Batches
// between two measured ones are interpolated for each pass (fitted), outside extrapolated and listed. Throws
// Error (unavailable) where the profile has no times for the model and precision; says what it has.
StepTimes step_times(const Model& model, const Profile& profile, Precision precision, std::int64_t batch,
                     const Optimizer& optimizer);
// With the curves of the same three, made before.
StepTimes step_times(const Model& model, const Profile& profile, Precision precision, std::int64_t batch,
                     const Optimizer& optimizer, const OperatorCurves& curves);
// The same, computed once for a model and a profile that several scenarios share: the points of a grid. Kept
// as long as both live; safe from several threads.
std::shared_ptr<const StepTimes> shared_step_times(const std::shared_ptr<const Model>& model,
                                                   const std::shared_ptr<const Profile>& profile,
                                                   Precision precision, std::int64_t batch,
                                                   const Optimizer& optimizer);

// From whole steps. Seconds are a + b x batch, fitted by least squares to two points or more; with one point
// the uncertainty spans from "all fixed cost" to "all proportional". Backward time is spread over the layers
// by their operations where the model is a graph, else over the parameters by their size (assumed).
StepTimes step_times(const Model& model, const StepTimeProfile& profile, std::int64_t batch);

// A list of one notional parameter a MiB, for a job known only by the bytes of its gradients (fp32).
Model parameters_of_size(double gradient_bytes);

}  // namespace foretrain
