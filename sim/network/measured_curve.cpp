#include "sim/network/measured_curve.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/quantile.hpp"
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

// The line through two points at a size; a time does not fall with the size.
double line(const MeasuredCurve::Point& a, const MeasuredCurve::Point& b, double bytes) {
  const double slope = std::max(0.0, (b.seconds - a.seconds) / (b.bytes - a.bytes));
  const MeasuredCurve::Point& near = std::abs(bytes - a.bytes) < std::abs(bytes - b.bytes) ? a : b;
  const double time = near.seconds + slope * (bytes - near.bytes);
  return time > 0 ? time : near.seconds;
}

// Networks of several nodes carry other noise than the repetitions of one size show: these lie within a
// second, and of three of them one in doubt is the bound. Over the curve it shows: how far each size lies off
// the line through its neighbours (what changed from one minute to the next), and the usual width of a size,
// above three times of which a bound is an outlier's.
constexpr double most_widths = 3;
// A size this many usual widths wide, and a tenth at least, has been measured amid something else.
constexpr double doubtful_widths = 5, doubtful_width = 0.1;

void doubt_networks(std::vector<MeasuredCurve::Point>& points) {
  std::vector<double> widths, deviations;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].bytes < MeasuredCurve::streamed_bytes) continue;
    widths.push_back(points[i].relative_uncertainty);
    if (i == 0 || i + 1 == points.size() || points[i - 1].bytes < MeasuredCurve::streamed_bytes) continue;
    const MeasuredCurve::Point &a = points[i - 1], &b = points[i + 1];
    if (b.bytes > 4 * a.bytes || a.protocol != b.protocol || a.algorithm != b.algorithm) continue;
    const double t = (points[i].bytes - a.bytes) / (b.bytes - a.bytes);
    const double expected = a.seconds + t * (b.seconds - a.seconds);
    // The neighbours' own deviations count towards the difference.
    const double share = 1 + t * t + (1 - t) * (1 - t);
    deviations.push_back(std::abs(points[i].seconds / expected - 1) / std::sqrt(share));
  }
  if (deviations.size() < 3) return;
  const double usual = median(std::move(widths));
  const double scatter = half_width_of_median_deviation * median(std::move(deviations));
  for (MeasuredCurve::Point& point : points) {
    if (point.bytes < MeasuredCurve::streamed_bytes) continue;
    const bool is_end = &point == &points.front() || &point == &points.back();
    if (!is_end && point.relative_uncertainty > std::max(doubtful_width, doubtful_widths * usual)) {
      point.is_doubtful = true;
      continue;
    }
    point.relative_uncertainty = std::max(scatter, std::min(point.relative_uncertainty, most_widths * usual));
  }
}

// Half of the repetitions of such a size took one time and half another. The ends stay: nothing lies beyond.
void find_doubtful(std::vector<MeasuredCurve::Point>& points) {
  constexpr double most_doubt = 0.25;
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {
    points[i].is_doubtful = points[i].relative_uncertainty > most_doubt;
  }
}

MeasuredCurve::Reading reading(const MeasuredCurve::Point& point, double seconds, double uncertainty) {
  return {seconds, uncertainty, point.algorithm, point.protocol};
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
  find_doubtful(points_);
  if (!entries.empty() && entries.front()->nodes > 1) doubt_networks(points_);
}

MeasuredCurve::Reading MeasuredCurve::between(const std::vector<Point>& points, std::size_t upper,
                                              double bytes) const {
  const Point& a = points[upper - 1];
  const Point& b = points[upper];
  const double chord = a.seconds + (bytes - a.bytes) / (b.bytes - a.bytes) * (b.seconds - a.seconds);
  const Point& nearest = bytes / a.bytes < b.bytes / bytes ? a : b;
  double floor = std::min(a.seconds, chord);
  if (upper >= 2) floor = std::max(floor, line(points[upper - 2], a, bytes));
  if (upper + 1 < points.size()) floor = std::max(floor, line(b, points[upper + 1], bytes));
  // A smaller size moves no faster than a larger one: the line from the origin to it is a bound as well.
  floor = std::max(floor, b.seconds * bytes / b.bytes);
  const double spread = std::max(a.relative_uncertainty, b.relative_uncertainty);
  const bool has_neighbours = upper >= 2 || upper + 1 < points.size();
  if (!has_neighbours || floor > chord)
    return reading(nearest, chord, spread + 0.01 * std::log2(b.bytes / a.bytes));
  // Bends are sharp more often than not: nearer to the floor than to the chord.
  const double time = 0.7 * floor + 0.3 * chord;
  return reading(nearest, time, spread + (chord - floor) / 2 / time);
}

MeasuredCurve::Reading MeasuredCurve::at(double bytes, const Choice& choice, const Model& model) const {
  const auto next = std::lower_bound(points_.begin(), points_.end(), bytes,
                                     [](const Point& point, double size) { return point.bytes < size; });
  const Point& larger = next == points_.end() ? points_.back() : *next;
  if (next == points_.begin()) return reading(larger, larger.seconds, larger.relative_uncertainty);
  // Calibration rounds sizes to what divides among the ranks: that is the size that was meant.
  constexpr double same_size = 1e-4;
  const Point& smaller = *(next - 1);
  const Point& nearest = bytes - smaller.bytes < larger.bytes - bytes ? smaller : larger;
  if (std::abs(nearest.bytes - bytes) > same_size * bytes) return among_others(bytes, choice, model);
  const Reading own = reading(nearest, nearest.seconds, nearest.relative_uncertainty);
  if (!nearest.is_doubtful) return own;
  // Weighed by what each is known to; the doubt is at least what they differ by.
  const Reading others = among_others(bytes, choice, model);
  const double own_weight = std::pow(own.seconds * own.relative_uncertainty, -2),
               others_weight = std::pow(others.seconds * others.relative_uncertainty, -2);
  const double seconds =
      (own_weight * own.seconds + others_weight * others.seconds) / (own_weight + others_weight);
  const double doubt =
      std::max(std::pow(own_weight + others_weight, -0.5), std::abs(own.seconds - others.seconds) / 2);
  return reading(nearest, seconds, doubt / seconds);
}

MeasuredCurve::Reading MeasuredCurve::among_others(double bytes, const Choice& choice,
                                                   const Model& model) const {
  const auto above = [bytes](const std::vector<Point>& points) {
    const auto at = std::lower_bound(points.begin(), points.end(), bytes,
                                     [](const Point& point, double size) { return point.bytes < size; });
    return static_cast<std::size_t>(at - points.begin());
  };
  std::vector<Point> firm, alike;
  const std::string asked = choice ? choice(bytes, "", "") : std::string();
  for (const Point& point : points_) {
    if (point.is_doubtful) continue;
    firm.push_back(point);
    const bool is_known = !point.algorithm.empty() && !point.protocol.empty();
    const std::string label = !choice    ? is_known ? choice_label(point.algorithm, point.protocol) : ""
                              : is_known ? choice(point.bytes, point.algorithm, point.protocol)
                                         : choice(point.bytes, "", "");
    if (label == asked) alike.push_back(point);
  }
  const std::size_t upper = std::min(above(firm), firm.size() - 1);
  const Point &a = firm[upper - 1], &b = firm[upper];
  const std::size_t next = above(alike);
  if (next > 0 && next < alike.size()) return between(alike, next, bytes);
  Reading any = between(firm, upper, bytes);
  if (alike.size() == 1 && model) {
    const Point& only = alike.front();
    const double time = only.seconds * model(bytes) / model(only.bytes);
    return reading(only, time, only.relative_uncertainty + std::abs(time - any.seconds) / 2 / time);
  }
  if (alike.size() < 2) {
    any.relative_uncertainty += std::abs(b.seconds - a.seconds) / 4 / any.seconds;
    return any;
  }
  const Point& first = next == 0 ? alike[0] : alike[alike.size() - 2];
  const Point& second = next == 0 ? alike[1] : alike[alike.size() - 1];
  // Two points of a choice may lie on either side of a step of the host's (a second segment of TCP): beyond
  // the second one the line through them rises no faster than the model does.
  double beyond = line(first, second, bytes);
  if (model && next > 0) beyond = std::min(beyond, second.seconds * model(bytes) / model(second.bytes));
  // The same collective of fewer bytes has been seen to take no less.
  const double time = std::max(beyond, std::min(a.seconds, b.seconds));
  return reading(next == 0 ? first : second, time,
                 b.relative_uncertainty + std::abs(time - any.seconds) / 2 / time);
}

}  // namespace foretrain
