#include "sim/network/measured_curve.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/network/nccl_model.hpp"

namespace foretrain {
namespace {

// A calibrated point of a few repetitions is never known better than this.
constexpr double least_uncertainty = 0.01;
// From the 95 % bounds of a median to a 90 % half width of a normal distribution.
constexpr double from_95_to_90 = 1.645 / 1.960;

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

MeasuredCurve::Point point_of(const CollectiveEntry& entry) {
  MeasuredCurve::Point point;
  point.bytes = static_cast<double>(entry.bytes);
  point.seconds = entry.time.median;
  const double width = std::max(0.0, entry.time.high - entry.time.low) / 2;
  if (entry.time.median > 0) point.relative_uncertainty = from_95_to_90 * width / entry.time.median;
  point.relative_uncertainty = std::max(point.relative_uncertainty, least_uncertainty);
  // NCCL's log writes RING and SIMPLE.
  const auto algorithm = collective_algorithm(
      lower_case(entry.chosen_algorithm.empty() ? entry.algorithm : entry.chosen_algorithm));
  const auto protocol = nccl_protocol(entry.chosen_protocol.empty() ? entry.protocol : entry.chosen_protocol);
  if (algorithm) point.algorithm = name_of(*algorithm);
  if (protocol) point.protocol = name_of(*protocol);
  return point;
}

bool same_choice(const MeasuredCurve::Point& a, const MeasuredCurve::Point& b) {
  return a.algorithm == b.algorithm && a.protocol == b.protocol;
}

}  // namespace

std::string choice_label(const std::string& algorithm, const std::string& protocol) {
  std::string label = algorithm + " " + protocol;
  for (char& c : label) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return label;
}

MeasuredCurve::MeasuredCurve(const std::vector<const CollectiveEntry*>& entries) {
  std::map<std::int64_t, std::vector<Point>> by_size;
  for (const CollectiveEntry* entry : entries) {
    if (entry->bytes > 0 && entry->time.median > 0) by_size[entry->bytes].push_back(point_of(*entry));
  }
  for (auto& [bytes, repeats] : by_size) {
    Point point = repeats.back();
    point.seconds = 0;
    for (const Point& repeat : repeats) point.seconds += repeat.seconds / static_cast<double>(repeats.size());
    for (const Point& repeat : repeats) {
      point.relative_uncertainty =
          std::max(point.relative_uncertainty, std::abs(repeat.seconds / point.seconds - 1));
    }
    points_.push_back(point);
  }
}

double MeasuredCurve::line(std::size_t first, std::size_t second, double bytes) const {
  const Point& a = points_[first];
  const Point& b = points_[second];
  const double slope = std::max(0.0, (b.seconds - a.seconds) / (b.bytes - a.bytes));
  const Point& near = std::abs(bytes - a.bytes) < std::abs(bytes - b.bytes) ? a : b;
  const double time = near.seconds + slope * (bytes - near.bytes);
  return time > 0 ? time : near.seconds;
}

MeasuredCurve::Reading MeasuredCurve::at(double bytes, const Choice& choice) const {
  const auto above = std::lower_bound(points_.begin(), points_.end(), bytes,
                                      [](const Point& point, double size) { return point.bytes < size; });
  const auto upper = std::min(static_cast<std::size_t>(above - points_.begin()), points_.size() - 1);
  auto reading = [](const Point& point, double seconds, double uncertainty) {
    return Reading{seconds, uncertainty, point.algorithm, point.protocol};
  };
  const Point& b = points_[upper];
  if (b.bytes == bytes || upper == 0) return reading(b, b.seconds, b.relative_uncertainty);
  const Point& a = points_[upper - 1];
  const double weight = (bytes - a.bytes) / (b.bytes - a.bytes);
  const double between = a.seconds + weight * (b.seconds - a.seconds);
  // What a straight line between two sizes may miss: measured curves bend most where they are sparse.
  const double gap = 0.01 * std::log2(b.bytes / a.bytes);
  const double spread = std::max(a.relative_uncertainty, b.relative_uncertainty) + gap;
  const Point& nearest = bytes / a.bytes < b.bytes / bytes ? a : b;
  if (same_choice(a, b)) return reading(nearest, between, spread);

  const bool has_left = upper >= 2 && same_choice(points_[upper - 2], a);
  const bool has_right = upper + 1 < points_.size() && same_choice(points_[upper + 1], b);
  const double from_left = has_left ? line(upper - 2, upper - 1, bytes) : between;
  const double from_right = has_right ? line(upper, upper + 1, bytes) : between;
  const std::string picked = choice ? choice(bytes) : std::string();
  bool left = from_left <= from_right;
  if (picked == choice_label(a.algorithm, a.protocol)) left = true;
  if (picked == choice_label(b.algorithm, b.protocol)) left = false;
  const double time = left ? from_left : from_right;
  const double doubt = std::abs(from_left - from_right) / (2 * time);
  return reading(left ? a : b, time, spread + doubt);
}

}  // namespace foretrain
