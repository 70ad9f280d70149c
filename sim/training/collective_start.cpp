#include "sim/training/collective_start.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace foretrain {
namespace {

// A median that is known no better tells nothing of a difference of two times.
constexpr double doubtful_error = 0.25;

}  // namespace

double collective_start(const Profile& profile, const std::string& kind, std::int64_t bytes, int ranks,
                        int nodes, double line_rate, double otherwise) {
  std::map<std::int64_t, double> points, doubtful;  // by bytes, of the nearest setting
  std::tuple<bool, double, int> best{true, 0, 0};
  double measured_rate = 0;
  for (const CollectiveEntry& entry : profile.collectives) {
    if (entry.kind != kind || entry.algorithm != "auto" || entry.isolated.repetitions == 0) continue;
    if ((entry.nodes > 1) != (nodes > 1)) continue;
    const double off =
        line_rate > 0 && entry.line_rate > 0 ? std::fabs(std::log(entry.line_rate / line_rate)) : 0;
    const std::tuple<bool, double, int> rank{entry.element != "fp32", off, std::abs(entry.ranks - ranks)};
    if ((points.empty() && doubtful.empty()) || rank < best) {
      points.clear();
      doubtful.clear();
      best = rank;
      measured_rate = entry.line_rate;
    }
    if (rank != best) continue;
    const bool is_known =
        std::max(relative_error(entry.isolated), relative_error(entry.time)) <= doubtful_error;
    (is_known ? points : doubtful)[entry.bytes] = entry.isolated.median - entry.time.median;
  }
  if (points.empty()) points = std::move(doubtful);
  if (points.empty()) return otherwise;
  // What a burst passes at once a faster line would have taken less time for.
  const double faster = measured_rate > 0 && line_rate > measured_rate ? measured_rate / line_rate : 1;
  for (auto& [size, seconds] : points)
    if (seconds < 0) seconds *= faster;
  const auto above = points.lower_bound(bytes);
  if (above == points.begin()) return above->second;
  if (above == points.end()) return points.rbegin()->second;
  const auto below = std::prev(above);
  const double t = std::log(static_cast<double>(bytes) / static_cast<double>(below->first)) /
                   std::log(static_cast<double>(above->first) / static_cast<double>(below->first));
  return below->second + t * (above->second - below->second);
}

}  // namespace foretrain
