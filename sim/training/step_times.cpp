#include "sim/training/step_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "sim/base/error.hpp"
#include "sim/training/host_speed.hpp"
#include "sim/training/operator_curves.hpp"
#include "sim/training/whole_steps.hpp"

namespace foretrain {
namespace {

// GPUs of one type differ by about a per cent; a host by more (assumed until a validation of many machines
// says better).
constexpr double doubt_between_devices = 0.015;
constexpr double doubt_between_hosts = 0.10;

struct Sum {
  double device = 0, squared_doubt = 0, linear_doubt = 0;
};

// Doubts of interpolation are alike across layers, so that they add up linearly.
StepItem item_from(const PassEstimate& times, Sum& sum, bool& extrapolated, Origin& origin) {
  StepItem item;
  item.device = times.device;
  item.host = times.host;
  item.launches = times.launches;
  sum.device += item.device;
  sum.linear_doubt += item.device * times.uncertainty;
  sum.squared_doubt += std::pow(item.device * times.relative_error, 2);
  extrapolated = extrapolated || times.extrapolated;
  if (times.origin != Origin::measured) origin = Origin::fitted;
  return item;
}

std::string what_profile_has(const Profile& profile) {
  std::map<std::string, std::set<std::int64_t>> known;
  for (const OperatorEntry& entry : profile.operators) {
    const std::string length = entry.sequence > 0 ? fmt::format(" at sequence {}", entry.sequence) : "";
    known[entry.context + " " + name_of(entry.precision) + length].insert(entry.batch);
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
    // Neither depends on the length of a sequence: any will do where the model's own was not measured.
    PassCurve curve, own;
    for (const StepWorkEntry& entry : profile.step_work) {
      if (entry.what != what || entry.model != model.name || entry.precision != precision) continue;
      add_timing(curve, entry.batch, entry.timing);
      if (entry.sequence == model.sequence) add_timing(own, entry.batch, entry.timing);
    }
    if (curve.device.empty()) continue;
    Sum sum;
    bool extrapolated = false;
    StepItem item =
        item_from(estimate(own.device.empty() ? curve : own, batch), sum, extrapolated, out.origin);
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
  return step_times(model, profile, precision, batch, optimizer, OperatorCurves(model, profile, precision));
}

StepTimes step_times(const Model& model, const Profile& profile, Precision precision, std::int64_t batch,
                     const Optimizer& optimizer, const OperatorCurves& curves) {
  if (!model.is_graph()) {
    throw Error(ErrorKind::input,
                fmt::format("model '{}' is a mere list of parameters: it needs a step-time profile "
                            "(profile: {{ steps: ... }}), not a profile of operators",
                            model.name));
  }
  StepTimes out;
  out.batch = batch;
  Sum sum;
  bool extrapolated = false;
  std::vector<std::string> elsewhere;
  auto estimate = [&](const Layer& layer, int index, Pass pass, Phase phase, std::vector<StepItem>& into) {
    if (layer.kind == LayerKind::measured) {
      if (pass == Pass::backward_weights) return false;
      into.push_back(measured_item(layer, pass, batch));
    } else {
      const std::optional<PassEstimate> times = curves.find(layer, pass, batch);
      if (!times) return false;
      into.push_back(item_from(*times, sum, extrapolated, out.origin));
      if (!curves.context_known()) elsewhere.push_back(layer.name);
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
    const bool has_work = !layer.parameters.empty() || layer.kind == LayerKind::attention;
    const bool is_backward_alone =
        !found && has_work && curves.find(layer, Pass::backward_weights, batch).has_value();
    if (!found && has_work && !is_backward_alone) {
      throw Error(
          ErrorKind::unavailable,
          fmt::format("profile '{}' has no times of layer '{}' ({}) in {} for model '{}': it has {}. Run "
                      "foretrain calibrate --model {} --precision {} --batch {}{} --append",
                      profile.name, layer.name, operator_key(model, layer), name_of(precision), model.name,
                      what_profile_has(profile), model.name, name_of(precision), batch,
                      model.sequence > 0 ? fmt::format(" --sequence {}", model.sequence) : ""));
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
  if (out.forward.empty() && out.backward.empty()) {
    throw Error(ErrorKind::unavailable,
                fmt::format("profile '{}' has no times of any layer of model '{}' in {}: it has {}",
                            profile.name, model.name, name_of(precision), what_profile_has(profile)));
  }
  add_step_work(out, model, profile, precision, batch);
  add_optimizer(out, model, profile, precision, optimizer);
  if (curves.context_known()) {
    const double whole = whole_over_parts(model, profile, precision, batch);
    for (std::vector<StepItem>* items : {&out.before, &out.forward, &out.backward, &out.update}) {
      for (StepItem& item : *items) item.device *= whole;
    }
  }

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
  const double drift = drift_of_cores(model, profile, precision);
  out.device_uncertainty =
      std::sqrt(interpolation * interpolation + measurement * measurement + alone * alone + drift * drift +
                doubt_between_devices * doubt_between_devices);
  const double shorter = 1 - shortest_over_parts(model, profile, precision, batch);
  out.device_faster = std::hypot(out.device_uncertainty, shorter);
  const HostSpeed host = host_speed(profile, model.name, precision, model.sequence, batch);
  for (std::vector<StepItem>* items : {&out.before, &out.forward, &out.backward, &out.update}) {
    for (StepItem& item : *items) item.host *= host.factor;
  }
  out.host_slower = std::max(doubt_between_hosts, host.slower);
  out.host_faster = std::max(doubt_between_hosts, host.faster);
  // Of a trace: no step was timed, and the host's time is known between bounds alone.
  for (const StepEntry& entry : profile.steps) {
    const bool is_bound = entry.step.repetitions == 0 && entry.host.median > 0;
    if (!is_bound || entry.model != model.name || entry.precision != precision || entry.batch != batch)
      continue;
    const double away = std::max(entry.host.high - entry.host.median, entry.host.median - entry.host.low);
    out.host_slower = out.host_faster = std::max(doubt_between_hosts, away / entry.host.median);
  }
  const auto is_outside = [](const std::set<std::int64_t>& known, std::int64_t asked) {
    return !known.empty() && (asked < *known.begin() || asked > *known.rbegin());
  };
  if (is_outside(curves.sequences(), model.sequence)) {
    out.extrapolated.push_back(
        {"sequence", fmt::format("{}", model.sequence),
         fmt::format("{} to {}", *curves.sequences().begin(), *curves.sequences().rbegin())});
  }
  if (extrapolated && !curves.batches().empty() &&
      (model.sequence == 0 || is_outside(curves.batches(), batch) || curves.batches().size() == 1)) {
    out.extrapolated.push_back(
        {"batch per worker", fmt::format("{}", batch),
         fmt::format("{} to {}", *curves.batches().begin(), *curves.batches().rbegin())});
  }
  return out;
}

Model parameters_of_size(double gradient_bytes) {
  Model model;
  model.name = "gradients";
  const double elements = std::ceil(gradient_bytes / 4);
  constexpr double most_parts = 4096;
  const int parts = static_cast<int>(std::clamp(std::ceil(gradient_bytes / (1 << 20)), 1.0, most_parts));
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
