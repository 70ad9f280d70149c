#include "sim/training/interference.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "sim/network/collective_measurements.hpp"
#include "sim/training/overlap_fit.hpp"

namespace foretrain {
namespace {

// Of profiles that have no entry between nodes. NCCL over TCP sockets runs two channels: a hundredth of an
// H100's multiprocessors, and a wire far slower than memory. Fitted to one run that is in no table: ResNet-50
// in bf16 at batch 64 on two nodes of one H100 at 10 Gbit/s, whose backward pass took 8.16 ms beside
// collectives and 7.54 ms alone; the collectives took the time they take alone.
constexpr double compute_slowdown_between_nodes = 1.08;

double distance(double a, double b) {
  return std::fabs(std::log2(std::max(a, 1.0)) - std::log2(std::max(b, 1.0)));
}

}  // namespace

Interference interference_of(const Profile& profile, const std::string& model, Precision precision,
                             std::int64_t batch, std::int64_t bytes, const InterferencePlace& place) {
  Interference out;
  const bool is_between = place.nodes > 1;
  std::tuple<double, bool, bool, double, double> best;
  for (const InterferenceEntry& entry : profile.interference) {
    if ((entry.nodes > 1) != is_between) continue;
    const bool is_same_rate = !is_between || is_same_line_rate(entry.line_rate, place.line_rate);
    const std::tuple<double, bool, bool, double, double> rank{
        is_same_rate ? 0 : distance(entry.line_rate, place.line_rate), entry.model != model,
        entry.precision != precision, distance(static_cast<double>(entry.batch), static_cast<double>(batch)),
        distance(static_cast<double>(entry.bytes), static_cast<double>(bytes))};
    if (out.origin != Origin::assumed && rank >= best) continue;
    best = rank;
    out.compute = std::max(1.0, entry.compute_slowdown.median);
    out.collective = std::max(1.0, entry.collective_slowdown.median);
    out.origin = entry.model == model && is_same_rate ? Origin::measured : Origin::fitted;
  }
  if (!is_between) {
    out.compute = 1 + (out.compute - 1) * interference_scale(profile, model, precision, batch, place.ranks);
  } else if (out.origin == Origin::assumed && profile.device == "cuda") {
    out.compute = compute_slowdown_between_nodes;
    out.origin = Origin::fitted;
  }
  return out;
}

}  // namespace foretrain
