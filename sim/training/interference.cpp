#include "sim/training/interference.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace foretrain {
namespace {

double distance(std::int64_t a, std::int64_t b) {
  return std::fabs(std::log2(static_cast<double>(std::max<std::int64_t>(a, 1))) -
                   std::log2(static_cast<double>(std::max<std::int64_t>(b, 1))));
}

}  // namespace

Interference interference_of(const Profile& profile, const std::string& model, Precision precision,
                             std::int64_t batch, std::int64_t bytes) {
  Interference out;
  std::tuple<bool, bool, double, double> best{true, true, 0, 0};
  for (const InterferenceEntry& entry : profile.interference) {
    const std::tuple<bool, bool, double, double> rank{entry.model != model, entry.precision != precision,
                                                      distance(entry.batch, batch),
                                                      distance(entry.bytes, bytes)};
    if (out.origin != Origin::assumed && rank >= best) continue;
    best = rank;
    out.compute = std::max(1.0, entry.compute_slowdown.median);
    out.collective = std::max(1.0, entry.collective_slowdown.median);
    out.origin = entry.model == model ? Origin::measured : Origin::fitted;
  }
  return out;
}

}  // namespace foretrain
