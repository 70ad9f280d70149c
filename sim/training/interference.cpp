#include "sim/training/interference.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "sim/base/quantile.hpp"
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

// Of at least one entry that of the nearest precision, batch and bytes.
const InterferenceEntry& nearest(const std::vector<const InterferenceEntry*>& entries, Precision precision,
                                 std::int64_t batch, std::int64_t bytes) {
  const auto rank = [&](const InterferenceEntry* entry) {
    return std::tuple(entry->precision != precision,
                      distance(static_cast<double>(entry->batch), static_cast<double>(batch)),
                      distance(static_cast<double>(entry->bytes), static_cast<double>(bytes)));
  };
  return **std::min_element(entries.begin(), entries.end(),
                            [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
}

// Entries of a node, or of those between nodes the ones whose line rate is nearest.
std::vector<const InterferenceEntry*> entries_for(const Profile& profile, const InterferencePlace& place) {
  std::vector<const InterferenceEntry*> entries;
  double least = 0;
  for (const InterferenceEntry& entry : profile.interference) {
    if ((entry.nodes > 1) != (place.nodes > 1)) continue;
    const bool is_same = place.nodes == 1 || is_same_line_rate(entry.line_rate, place.line_rate);
    const double away = is_same ? 0 : distance(entry.line_rate, place.line_rate);
    if (!entries.empty() && away > least) continue;
    if (!entries.empty() && away < least) entries.clear();
    least = away;
    entries.push_back(&entry);
  }
  return entries;
}

}  // namespace

Interference interference_of(const Profile& profile, const std::string& model, Precision precision,
                             std::int64_t batch, std::int64_t bytes, const InterferencePlace& place) {
  const bool is_between = place.nodes > 1;
  std::map<std::string, std::vector<const InterferenceEntry*>> by_model;
  for (const InterferenceEntry* entry : entries_for(profile, place)) by_model[entry->model].push_back(entry);
  Interference out;
  std::vector<double> compute, collective;
  for (const auto& [of, entries] : by_model) {
    if (by_model.contains(model) && of != model) continue;
    const InterferenceEntry& entry = nearest(entries, precision, batch, bytes);
    compute.push_back(std::max(1.0, entry.compute_slowdown.median));
    collective.push_back(std::max(1.0, entry.collective_slowdown.median));
    const bool is_same_rate = !is_between || is_same_line_rate(entry.line_rate, place.line_rate);
    out.origin = of == model && is_same_rate ? Origin::measured : Origin::fitted;
  }
  if (!compute.empty()) {
    out.compute = median(compute);
    out.collective = median(collective);
  }
  if (!is_between) {
    const OverlapCost in_step = overlap_cost(profile, model, precision, batch, place.ranks);
    out.compute = 1 + (out.compute - 1) * in_step.interference_scale;
    out.wait = in_step.collective_wait;
  } else if (out.origin == Origin::assumed && profile.device == "cuda") {
    out.compute = compute_slowdown_between_nodes;
    out.origin = Origin::fitted;
  }
  return out;
}

}  // namespace foretrain
