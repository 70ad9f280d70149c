#include "sim/job/target.hpp"

#include <algorithm>
#include <limits>

namespace foretrain {
namespace {

using Points = std::vector<std::pair<double, double>>;

struct Crossing {
  bool found = false;
  double first = 0, own = 0, last = 0;
};

Crossing crossing_of(const Points& points, const Target& target) {
  auto reaches = [&](double value) {
    return target.is_accuracy ? value >= target.value : value <= target.value;
  };
  Crossing out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& [x, y] = points[i];
    if (!reaches(y)) {
      out.last = i + 1 < points.size() ? points[i + 1].first : x;
      continue;
    }
    if (out.found) continue;
    out.found = true;
    out.first = out.own = x;
    if (i > 0) {
      const auto& [x0, y0] = points[i - 1];
      out.first = x0;
      if (y != y0) out.own = x0 + (x - x0) * (target.value - y0) / (y - y0);
    }
  }
  out.last = std::max(out.last, out.own);
  return out;
}

double middle_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

double time_of_updates(const JobPrediction& job, double updates) {
  double x0 = 0, t0 = job.startup;
  for (const JobPoint& point : job.progress) {
    const auto x1 = static_cast<double>(point.updates);
    if (updates <= x1) return x1 > x0 ? t0 + (point.time - t0) * (updates - x0) / (x1 - x0) : point.time;
    x0 = x1;
    t0 = point.time;
  }
  return t0;
}

JobTarget time_to_target(const Curve& curve, const Target& target, const JobPrediction& job) {
  JobTarget out;
  out.what = target.is_accuracy ? "accuracy" : "loss";
  out.value = target.value;
  out.runs = static_cast<int>(curve.runs.size());
  const double an_epoch = job.epochs > 0 ? static_cast<double>(job.updates) / job.epochs : 0;
  const double scale = curve.by_epochs ? an_epoch : 1;
  double first = std::numeric_limits<double>::infinity(), last = 0;
  std::vector<double> own;
  bool all_reach = true;
  for (const Points& points : curve.runs) {
    const Crossing crossing = crossing_of(points, target);
    all_reach = all_reach && crossing.found;
    if (!crossing.found) continue;
    first = std::min(first, crossing.first * scale);
    last = std::max(last, crossing.last * scale);
    own.push_back(crossing.own * scale);
  }
  if (own.empty()) return out;
  out.updates = middle_of(own);
  out.reached = all_reach && out.updates <= static_cast<double>(job.updates);
  out.time = time_of_updates(job, out.updates);
  out.low = time_of_updates(job, first);
  out.high = time_of_updates(job, last);
  return out;
}

double slope_at_end(const Curve& curve, double updates, double epochs, double updates_an_epoch) {
  double sum = 0;
  for (const Points& points : curve.runs) {
    const double end = std::min(points.back().first, curve.by_epochs ? epochs : updates);
    constexpr double last_part = 0.2;
    double begin = end - last_part * (end - points.front().first);
    // A sparse curve: its last two points.
    const auto after = std::upper_bound(points.begin(), points.end(), end,
                                        [](double x, const auto& point) { return x < point.first; });
    if (after - points.begin() >= 2) begin = std::min(begin, (after - 2)->first);
    // Least squares: a single point is noisy.
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (const auto& [x, y] : points) {
      if (x < begin || x > end) continue;
      n += 1;
      sx += x;
      sy += y;
      sxx += x * x;
      sxy += x * y;
    }
    const double spread = n * sxx - sx * sx;
    if (spread > 0) sum += (n * sxy - sx * sy) / spread;
  }
  const double slope = sum / static_cast<double>(curve.runs.size());
  return curve.by_epochs && updates_an_epoch > 0 ? slope / updates_an_epoch : slope;
}

}  // namespace foretrain
