// Step times from (batch, seconds) pairs: the second kind of profile.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/training/step_times.hpp"

namespace foretrain {
namespace {

struct Line {
  double at = 0;           // seconds at the batch asked for
  double uncertainty = 0;  // relative, half width at 90 %
  bool extrapolated = false;
  Origin origin = Origin::fitted;
};

// Least squares of seconds = a + b x batch, a and b not negative. With one point: the middle between a step
// that does not depend on the batch and one in proportion to it, and an interval that holds both.
Line fit(const std::vector<StepTimeProfile::Point>& points, std::int64_t batch) {
  Line out;
  const auto x = static_cast<double>(batch);
  auto [least, most] = std::minmax_element(points.begin(), points.end(),
                                           [](const auto& a, const auto& b) { return a.batch < b.batch; });
  out.extrapolated = batch < least->batch || batch > most->batch;
  for (const auto& point : points) {
    if (point.batch == batch) {
      out.at = point.seconds;
      out.uncertainty = point.seconds > 0 ? 1.645 * point.spread / point.seconds : 0;
      out.origin = Origin::measured;
      return out;
    }
  }
  if (least->batch == most->batch) {
    const double fixed = least->seconds,
                 proportional = least->seconds * x / static_cast<double>(least->batch);
    out.at = (fixed + proportional) / 2;
    out.uncertainty = std::fabs(fixed - proportional) / 2 / out.at;
    return out;
  }
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const auto& point : points) {
    const auto px = static_cast<double>(point.batch);
    n += 1;
    sx += px;
    sy += point.seconds;
    sxx += px * px;
    sxy += px * point.seconds;
  }
  double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
  double fixed = (sy - slope * sx) / n;
  if (fixed < 0) {
    fixed = 0;
    slope = sxy / sxx;
  }
  if (slope < 0) {
    slope = 0;
    fixed = sy / n;
  }
  out.at = fixed + slope * x;
  double squares = 0;
  for (const auto& point : points) {
    squares += std::pow(point.seconds - fixed - slope * static_cast<double>(point.batch), 2);
  }
  // With two points the residual says nothing: 5 % between them, growing with the distance beyond (assumed).
  const double residual = n > 2 ? std::sqrt(squares / (n - 2)) / out.at : 0;
  const double beyond =
      out.extrapolated
          ? std::fabs(std::log2(x / static_cast<double>(batch < least->batch ? least->batch : most->batch)))
          : 0;
  out.uncertainty =
      std::sqrt(std::pow(1.645 * residual, 2) + std::pow(n > 2 ? 0.0 : 0.05, 2) + std::pow(0.1 * beyond, 2));
  return out;
}

}  // namespace

StepTimes step_times(const Model& model, const StepTimeProfile& profile, std::int64_t batch) {
  if (profile.points.empty())
    throw Error(ErrorKind::input, "a step-time profile needs one (batch, seconds) pair");
  const Line line = fit(profile.points, batch);
  StepTimes out;
  out.batch = batch;
  out.origin = line.origin;
  out.device_uncertainty = line.uncertainty;
  StepItem forward;
  forward.name = "forward";
  forward.device = line.at * (1 - profile.backward_fraction);
  forward.launches = 1;
  out.forward.push_back(forward);

  // Shares of the backward time, in the order in which gradients become ready.
  const double backward = line.at * profile.backward_fraction;
  double total = 0;
  std::vector<double> weight(model.parameters.size());
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const Parameter& parameter = model.parameters[p];
    if (model.is_graph() && parameter.layer >= 0) {
      const Layer& layer = model.layers[static_cast<std::size_t>(parameter.layer)];
      weight[p] = layer.forward_flops.count() /
                  static_cast<double>(std::max<std::size_t>(1, layer.parameters.size()));
    } else {
      weight[p] = static_cast<double>(parameter.elements);
    }
    total += weight[p];
  }
  out.gradient_ready.resize(model.parameters.size());
  for (std::size_t p = model.parameters.size(); p-- > 0;) {
    StepItem item;
    item.name = model.parameters[p].name;
    item.phase = Phase::backward;
    item.layer = model.parameters[p].layer;
    item.device =
        total > 0 ? backward * weight[p] / total : backward / static_cast<double>(model.parameters.size());
    item.launches = 1;
    out.gradient_ready[p] = static_cast<int>(out.backward.size());
    out.backward.push_back(item);
  }
  if (model.parameters.empty()) {
    StepItem item;
    item.name = "backward";
    item.phase = Phase::backward;
    item.device = backward;
    item.launches = 1;
    out.backward.push_back(item);
  }
  for (const Parameter& parameter : model.parameters) out.parameter_elements.push_back(parameter.elements);
  StepItem update;  // its time is part of the measured step and cannot be told apart
  update.name = "update";
  update.phase = Phase::optimizer;
  update.launches = 1;
  out.update.push_back(update);
  if (line.extrapolated) {
    std::string range;
    for (const auto& point : profile.points)
      range += (range.empty() ? "" : ", ") + fmt::format("{}", point.batch);
    out.extrapolated.push_back({"batch per worker", fmt::format("{}", batch), range});
  }
  return out;
}

}  // namespace foretrain
