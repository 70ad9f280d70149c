#include "sim/training/interference.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "sim/training/overlap_fit.hpp"

namespace foretrain {
namespace {

// NCCL over TCP sockets runs two channels: a hundredth of an H100's multiprocessors, and a wire far slower
// than memory. Fitted to one run that is in no table: ResNet-50 in bf16 at batch 64 on two nodes of one H100
// at 10 Gbit/s, whose backward pass took 8.16 ms beside collectives and 7.54 ms alone; the collectives took
// the time they take alone.
constexpr double compute_slowdown_between_nodes = 1.08;

double distance(std::int64_t a, std::int64_t b) {
  return std::fabs(std::log2(static_cast<double>(std::max<std::int64_t>(a, 1))) -
                   std::log2(static_cast<double>(std::max<std::int64_t>(b, 1))));
}

}  // namespace

Interference interference_of(const Profile& profile, const std::string& model, Precision precision,
                             std::int64_t batch, std::int64_t bytes, int nodes, int ranks) {
  Interference out;
  if (nodes > 1) {
    if (profile.device == "cuda") out.compute = compute_slowdown_between_nodes;
    out.origin = Origin::fitted;
    return out;
  }
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
  out.compute = 1 + (out.compute - 1) * interference_scale(profile, model, precision, batch, ranks);
  return out;
}

}  // namespace foretrain
