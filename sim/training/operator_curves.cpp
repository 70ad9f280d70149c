#include "sim/training/operator_curves.hpp"

#include <algorithm>
#include <cmath>

#include "sim/training/batch_curve.hpp"
#include "sim/training/step_times.hpp"

namespace foretrain {
namespace {

// What depends on the length by itself, not on the number of rows alone.
bool depends_on_length(LayerKind kind) {
  return kind == LayerKind::attention || is_recurrence(kind);
}

double at_nearest(const std::map<std::int64_t, double>& points, std::int64_t at) {
  auto nearest = points.lower_bound(at);
  if (nearest == points.end()) --nearest;
  return nearest->second;
}

}  // namespace

void add_timing(PassCurve& curve, std::int64_t at, const PassTiming& timing) {
  curve.device[at] = timing.device.median;
  curve.host[at] = timing.host.median;
  curve.launches[at] = timing.launches;
  if (timing.device.median > 0) {
    curve.relative_error = std::max(curve.relative_error, relative_error(timing.device));
  }
}

PassEstimate estimate(const PassCurve& curve, std::int64_t at) {
  PassEstimate out;
  const BatchEstimate device = at_batch(curve.device, at);
  out.device = device.value;
  out.host = at_batch(curve.host, at).value;
  // The number of launches does not grow with the batch: take that of the nearest batch.
  out.launches = static_cast<int>(std::lround(at_nearest(curve.launches, at)));
  out.uncertainty = device.uncertainty;
  out.relative_error = curve.relative_error;
  out.extrapolated = device.extrapolated;
  out.origin = device.origin == Origin::measured ? Origin::measured : Origin::fitted;
  return out;
}

OperatorCurves::OperatorCurves(const Model& model, const Profile& profile, Precision precision)
    : model_(model), context_known_(has_times_of(profile, model.name, precision)) {
  std::set<std::int64_t> at_length;
  for (const OperatorEntry& entry : profile.operators) {
    if (entry.precision != precision) continue;
    const bool here = entry.context == model.name;
    if (context_known_ && !here) continue;  // other models' count only where this one was not timed
    if (here) batches_.insert(entry.batch);
    if (here && entry.sequence > 0) sequences_.insert(entry.sequence);
    for (std::size_t pass = 0; pass < pass_count; ++pass) {
      const PassTiming& timing = entry.passes[pass];
      if (timing.launches <= 0 && timing.device.median <= 0) continue;
      ByKey& own = here ? in_context_ : by_operator_;
      add_timing(own[here ? entry.layer + "\n" + entry.key : entry.key][pass], entry.batch, timing);
      if (!here || entry.sequence < 1) continue;
      add_timing(by_rows_[entry.layer][pass], entry.batch * entry.sequence, timing);
      add_timing(by_length_[entry.sequence][entry.layer][pass], entry.batch, timing);
      if (entry.sequence == model.sequence) at_length.insert(entry.batch);
    }
  }
  if (!at_length.empty()) batches_ = at_length;
}

const PassCurve* OperatorCurves::curve_of(const ByKey& curves, const std::string& key, Pass pass) const {
  const auto found = curves.find(key);
  if (found == curves.end()) return nullptr;
  const PassCurve& curve = found->second[static_cast<std::size_t>(pass)];
  return curve.device.empty() ? nullptr : &curve;
}

std::optional<PassEstimate> OperatorCurves::find(const Layer& layer, Pass pass, std::int64_t batch) const {
  const std::string key = operator_key(model_, layer);
  const PassCurve* const curve = context_known_ ? curve_of(in_context_, layer.name + "\n" + key, pass)
                                                : curve_of(by_operator_, key, pass);
  if (curve != nullptr) return estimate(*curve, batch);
  if (model_.sequence < 1 || sequences_.empty() || sequences_.contains(model_.sequence)) return std::nullopt;
  return between_lengths(layer, pass, batch);
}

std::optional<PassEstimate> OperatorCurves::between_lengths(const Layer& layer, Pass pass,
                                                            std::int64_t batch) const {
  if (!depends_on_length(layer.kind)) {
    const PassCurve* const rows = curve_of(by_rows_, layer.name, pass);
    if (rows == nullptr) return std::nullopt;
    PassEstimate out = estimate(*rows, batch * model_.sequence);
    out.origin = Origin::fitted;
    return out;
  }
  // At each measured length the time at this batch; of attention, over the length.
  PassEstimate out;
  std::map<std::int64_t, double> device, host, launches;
  for (const auto& [length, layers] : by_length_) {
    const PassCurve* const curve = curve_of(layers, layer.name, pass);
    if (curve == nullptr) continue;
    const PassEstimate there = estimate(*curve, batch);
    const double per = layer.kind == LayerKind::attention ? static_cast<double>(length) : 1;
    device[length] = there.device / per;
    host[length] = there.host;
    launches[length] = there.launches;
    out.uncertainty = std::max(out.uncertainty, there.uncertainty);
    out.relative_error = std::max(out.relative_error, there.relative_error);
    out.extrapolated = out.extrapolated || there.extrapolated;
  }
  if (device.empty()) return std::nullopt;
  const double times = layer.kind == LayerKind::attention ? static_cast<double>(model_.sequence) : 1;
  const BatchEstimate across = at_batch(device, model_.sequence);
  out.device = across.value * times;
  // An attention is a call whatever the length. A recurrence has launches for each position, in a fused call
  // too: the library makes them.
  const bool by_position = is_recurrence(layer.kind);
  out.host = by_position ? at_batch(host, model_.sequence).value : at_nearest(host, model_.sequence);
  out.launches = static_cast<int>(std::lround(by_position ? at_batch(launches, model_.sequence).value
                                                          : at_nearest(launches, model_.sequence)));
  out.uncertainty += across.uncertainty;
  out.extrapolated = out.extrapolated || across.extrapolated;
  out.origin = Origin::fitted;
  return out;
}

}  // namespace foretrain
