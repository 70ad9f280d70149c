#include "sim/training/step_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <unordered_map>

#include "sim/base/error.hpp"
#include "sim/training/batch_curve.hpp"

namespace foretrain {
namespace {

// GPUs of one type differ by about a per cent; a host by more (assumed until a validation of many machines
// says better).
constexpr double doubt_between_devices = 0.015;
constexpr double doubt_between_hosts = 0.10;

struct Curve {
  std::map<std::int64_t, double> device, host;
  std::map<std::int64_t, double> launches;
  double relative_error = 0;  // of the measured medians
};

void add(Curve& curve, std::int64_t batch, const PassTiming& timing) {
  curve.device[batch] = timing.device.median;
  curve.host[batch] = timing.host.median;
  curve.launches[batch] = timing.launches;
  if (timing.device.median > 0) {
    curve.relative_error =
        std::max(curve.relative_error, (timing.device.high - timing.device.low) / 2 / timing.device.median);
  }
}

struct Sum {
  double device = 0, squared_doubt = 0, linear_doubt = 0;
};

// Times of one pass at a batch; doubts of interpolation are alike across layers, so that they add up
// linearly.
StepItem item_from(const Curve& curve, std::int64_t batch, Sum& sum, bool& extrapolated, Origin& origin) {
  StepItem item;
  const BatchEstimate device = at_batch(curve.device, batch);
  const BatchEstimate host = at_batch(curve.host, batch);
  item.device = device.value;
  item.host = host.value;
  // The number of launches does not grow with the batch: take that of the nearest batch.
  auto nearest = curve.launches.lower_bound(batch);
  if (nearest == curve.launches.end()) --nearest;
  item.launches = static_cast<int>(std::lround(nearest->second));
  sum.device += item.device;
  sum.linear_doubt += item.device * device.uncertainty;
  sum.squared_doubt += std::pow(item.device * curve.relative_error, 2);
  extrapolated = extrapolated || device.extrapolated;
  if (device.origin != Origin::measured) origin = Origin::fitted;
  return item;
}

using CurvesOfPasses = std::array<Curve, pass_count>;  // empty where a pass was not timed

struct Curves {
  std::unordered_map<std::string, CurvesOfPasses> in_context, by_operator;  // by layer and key, by key
  std::set<std::int64_t> batches;
  bool context_known = false;
};

Curves curves_of(const Model& model, const Profile& profile, Precision precision) {
  Curves out;
  out.context_known = has_times_of(profile, model.name, precision);
  for (const OperatorEntry& entry : profile.operators) {
    if (entry.precision != precision) continue;
    const bool here = entry.context == model.name;
    if (out.context_known && !here) continue;  // other models' count only where this one was not timed
    if (here) out.batches.insert(entry.batch);
    CurvesOfPasses& curves =
        here ? out.in_context[entry.layer + "\n" + entry.key] : out.by_operator[entry.key];
    for (std::size_t pass = 0; pass < pass_count; ++pass) {
      const PassTiming& timing = entry.passes[pass];
      if (timing.launches <= 0 && timing.device.median <= 0) continue;
      add(curves[pass], entry.batch, timing);
    }
  }
  return out;
}

const Curve* curve_of(const std::unordered_map<std::string, CurvesOfPasses>& curves, const std::string& key,
                      Pass pass) {
  const auto found = curves.find(key);
  if (found == curves.end()) return nullptr;
  const Curve& curve = found->second[static_cast<std::size_t>(pass)];
  return curve.device.empty() ? nullptr : &curve;
}

std::string what_profile_has(const Profile& profile) {
  std::map<std::string, std::set<std::int64_t>> known;
  for (const OperatorEntry& entry : profile.operators) {
    known[entry.context + " " + name_of(entry.precision)].insert(entry.batch);
  }
  std::string out;
  for (const auto& [what, batches] : known) {
    out += (out.empty() ? "" : "; ") + what + " at batch " + fmt::format("{}", fmt::join(batches, ", "));
  }
  return out.empty() ? "no model" : out;
}

StepItem measured_item(const Layer& layer, Pass pass, std::int64_t batch) {
  StepItem item;
  const MeasuredTimes& times = *layer.measured;
  const auto b = static_cast<double>(batch);
  if (pass == Pass::forward) {
    item.device = times.forward.in_seconds() + b * times.forward_per_sample.in_seconds();
    item.launches = times.launches_forward;
  } else {
    item.device = times.backward.in_seconds() + b * times.backward_per_sample.in_seconds();
    item.launches = times.launches_backward;
  }
  return item;
}

void add_optimizer(StepTimes& out, const Model& model, const Profile& profile, Precision precision,
                   const Optimizer& optimizer) {
  const std::string wanted = optimizer_entry_name(optimizer);
  const OptimizerEntry* best = nullptr;
  for (const OptimizerEntry& entry : profile.optimizers) {
    if (entry.kind != wanted) continue;
    const bool better =
        best == nullptr || std::make_pair(entry.model == model.name, entry.precision == precision) >=
                               std::make_pair(best->model == model.name, best->precision == precision);
    if (better) best = &entry;
  }
  if (best == nullptr) {
    throw Error(ErrorKind::unavailable,
                fmt::format("profile '{}' has no times of the optimizer {}: calibrate with it", profile.name,
                            wanted));
  }
  StepItem item;
  item.name = "update";
  item.phase = Phase::optimizer;
  item.device = best->update.device.median;
  item.host = best->update.host.median;
  item.launches = static_cast<int>(std::lround(best->update.launches));
  if (best->model != model.name) {
    // The update streams parameters, gradients and state: its time goes with their bytes.
    item.device *= static_cast<double>(model.parameter_count()) / std::max(1.0, best->parameters);
    out.origin = Origin::fitted;
  }
  out.update.push_back(item);
}

void add_step_work(StepTimes& out, const Model& model, const Profile& profile, Precision precision,
                   std::int64_t batch) {
  for (const char* what : {"cast_weights", "zero_gradients"}) {
    Curve curve;
    for (const StepWorkEntry& entry : profile.step_work) {
      if (entry.what == what && entry.model == model.name && entry.precision == precision) {
        add(curve, entry.batch, entry.timing);
      }
    }
    if (curve.device.empty()) continue;
    Sum sum;
    bool extrapolated = false;
    StepItem item = item_from(curve, batch, sum, extrapolated, out.origin);
    if (item.launches == 0 && item.device == 0) continue;
    item.name = what;
    item.phase = Phase::forward;
    out.before.push_back(item);
  }
}

}  // namespace

bool has_times_of(const Profile& profile, const std::string& model, Precision precision) {
  return std::any_of(profile.operators.begin(), profile.operators.end(), [&](const OperatorEntry& entry) {
    return entry.precision == precision && entry.context == model;
  });
}

StepTimes step_times(const Model& model, const Profile& profile, Precision precision, std::int64_t batch,
                     const Optimizer& optimizer) {
  if (!model.is_graph()) {
    throw Error(ErrorKind::input,
                fmt::format("model '{}' is a mere list of parameters: it needs a step-time profile "
                            "(profile: {{ steps: ... }}), not a profile of operators",
                            model.name));
  }
  const Curves curves = curves_of(model, profile, precision);
  StepTimes out;
  Sum sum;
  bool extrapolated = false;
  std::vector<std::string> elsewhere;
  auto estimate = [&](const Layer& layer, int index, Pass pass, Phase phase, std::vector<StepItem>& into) {
    if (layer.kind == LayerKind::measured) {
      if (pass == Pass::backward_weights) return false;
      into.push_back(measured_item(layer, pass, batch));
    } else {
      const std::string key = operator_key(model, layer);
      const Curve* const curve = curves.context_known
                                     ? curve_of(curves.in_context, layer.name + "\n" + key, pass)
                                     : curve_of(curves.by_operator, key, pass);
      if (curve == nullptr) return false;
      into.push_back(item_from(*curve, batch, sum, extrapolated, out.origin));
      if (!curves.context_known) elsewhere.push_back(layer.name);
    }
    into.back().name = layer.name;
    into.back().phase = phase;
    into.back().layer = index;
    return true;
  };

  std::vector<int> ready_of_layer(model.layers.size(), -1);
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    const bool found = estimate(layer, static_cast<int>(l), Pass::forward, Phase::forward, out.forward);
    if (!found && !layer.parameters.empty()) {
      throw Error(
          ErrorKind::unavailable,
          fmt::format("profile '{}' has no times of layer '{}' ({}) in {} for model '{}': it has {}. Run "
                      "foretrain calibrate --model {} --precision {} --batch {} --append",
                      profile.name, layer.name, operator_key(model, layer), name_of(precision), model.name,
                      what_profile_has(profile), model.name, name_of(precision), batch));
    }
  }
  for (std::size_t l = model.layers.size(); l-- > 0;) {
    const Layer& layer = model.layers[l];
    // As the backends issue them: the weights' gradients first, so that their bucket can leave.
    estimate(layer, static_cast<int>(l), Pass::backward_weights, Phase::backward, out.backward);
    ready_of_layer[l] = static_cast<int>(out.backward.size()) - 1;
    estimate(layer, static_cast<int>(l), Pass::backward_data, Phase::backward, out.backward);
  }
  for (const Parameter& parameter : model.parameters) {
    out.gradient_ready.push_back(std::max(0, ready_of_layer[static_cast<std::size_t>(parameter.layer)]));
    out.parameter_elements.push_back(parameter.elements);
  }
  add_step_work(out, model, profile, precision, batch);
  add_optimizer(out, model, profile, precision, optimizer);

  for (const OperatorEntry& entry : profile.operators) {
    if (entry.context == model.name && entry.precision == precision)
      out.workspace_bytes = std::max(out.workspace_bytes, entry.workspace_bytes);
  }
  const double interpolation = sum.device > 0 ? sum.linear_doubt / sum.device : 0;
  const double measurement = sum.device > 0 ? std::sqrt(sum.squared_doubt) / sum.device : 0;
  double alone = 0;
  if (!elsewhere.empty()) {
    alone = 0.05;
    out.origin = Origin::fitted;
    out.warnings.push_back(
        fmt::format("model '{}' was not calibrated as a whole: times of {} layers come from other "
                    "models in the profile",
                    model.name, elsewhere.size()));
  }
  out.device_uncertainty = std::sqrt(interpolation * interpolation + measurement * measurement +
                                     alone * alone + doubt_between_devices * doubt_between_devices);
  out.host_uncertainty = doubt_between_hosts;
  if (extrapolated && !curves.batches.empty()) {
    out.extrapolated.push_back({"batch per worker", fmt::format("{}", batch),
                                fmt::format("{} to {}", *curves.batches.begin(), *curves.batches.rbegin())});
  }
  return out;
}

Model parameters_of_size(double gradient_bytes) {
  Model model;
  model.name = "gradients";
  const double elements = gradient_bytes / 4;
  const int parts = std::max(1, static_cast<int>(std::ceil(gradient_bytes / (1 << 20))));
  for (int i = 0; i < parts; ++i) {
    Parameter parameter;
    parameter.name = fmt::format("part{}", i);
    parameter.elements = static_cast<std::int64_t>(std::llround(elements * (i + 1) / parts)) -
                         static_cast<std::int64_t>(std::llround(elements * i / parts));
    parameter.shape = {parameter.elements};
    model.parameters.push_back(parameter);
  }
  return model;
}

}  // namespace foretrain
