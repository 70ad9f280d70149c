#include "calibrate/collective_suite.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "sim/base/units.hpp"

namespace foretrain::calibrate {
namespace {

std::string text_of(const RankSubset& subset) {
  const Placement& placement = subset.placement;
  std::string text = std::to_string(placement.ranks) + " ranks";
  if (placement.nodes > 1) text += " on " + std::to_string(placement.nodes) + " nodes";
  return text;
}

std::string text_of(const CollectiveCurve& curve) {
  std::string text = foretrain::name_of(curve.kind);
  text += std::string(" ") + name_of(curve.element);
  if (curve.setting.algorithm != "auto") text += " " + curve.setting.algorithm + " " + curve.setting.protocol;
  return text;
}

bool same_setting(const CollectiveCurve& a, const CollectiveCurve& b) {
  return a.setting.algorithm == b.setting.algorithm && a.setting.protocol == b.setting.protocol;
}

// 1, 2, 4, ... and the number itself, from the greatest.
std::vector<int> powers_down_from(int most, int least) {
  std::vector<int> counts = {most};
  int power = 1;
  while (power * 2 < most) power *= 2;
  for (; power >= least; power /= 2)
    if (power < most) counts.push_back(power);
  return counts;
}

}  // namespace

std::vector<RankSubset> local_subsets(int ranks, const std::string& network) {
  std::vector<int> counts;
  if (ranks >= 2) counts.push_back(ranks);
  if (ranks > 2) counts.push_back(2);
  for (int count = ranks - 1; count > 2; --count) counts.push_back(count);
  std::vector<RankSubset> subsets;
  for (const int count : counts) {
    RankSubset subset{{count, 1, network, 0}, std::vector<int>(static_cast<std::size_t>(count))};
    std::iota(subset.members.begin(), subset.members.end(), 0);
    subsets.push_back(std::move(subset));
  }
  return subsets;
}

std::vector<RankSubset> node_subsets(const std::vector<int>& node_of_rank, const std::string& network,
                                     double line_rate) {
  // Nodes in the order of their first rank.
  std::vector<std::vector<int>> nodes;
  std::map<int, std::size_t> index;
  for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const auto [known, added] = index.try_emplace(node_of_rank[rank], nodes.size());
    if (added) nodes.emplace_back();
    nodes[known->second].push_back(static_cast<int>(rank));
  }
  std::vector<RankSubset> subsets;
  if (nodes.size() < 2) return subsets;
  std::size_t least_gpus = nodes.front().size();
  for (const std::vector<int>& node : nodes) least_gpus = std::min(least_gpus, node.size());
  for (const int node_count : powers_down_from(static_cast<int>(nodes.size()), 2)) {
    for (const int gpus : powers_down_from(static_cast<int>(least_gpus), 1)) {
      RankSubset subset;
      subset.placement = {node_count * gpus, node_count, network, line_rate};
      for (int node = 0; node < node_count; ++node)
        for (int gpu = 0; gpu < gpus; ++gpu)
          subset.members.push_back(nodes[static_cast<std::size_t>(node)][static_cast<std::size_t>(gpu)]);
      std::sort(subset.members.begin(), subset.members.end());
      subsets.push_back(std::move(subset));
    }
  }
  return subsets;
}

void measure_collectives(Session& session, RankGroup& group, device::Backend& backend,
                         const std::vector<RankSubset>& subsets, const CollectiveOptions& options,
                         bool sets_environment, const SuiteHooks& hooks) {
  const bool leads = group.rank() == 0;
  const auto progress = [&](const std::string& text) {
    if (leads && hooks.progress) hooks.progress(text);
  };
  const auto warning = [&](const std::string& text) {
    if (leads && hooks.warning) hooks.warning(text);
  };
  // all_to_all and send_recv receive beside what they send.
  const device::Buffer buffer = session.worker.allocate(2 * options.most_bytes);
  const double start = session.clock.now();
  for (std::size_t s = 0; s < subsets.size(); ++s) {
    const RankSubset& subset = subsets[s];
    const auto member = std::find(subset.members.begin(), subset.members.end(), group.rank());
    const int rank = static_cast<int>(member - subset.members.begin());
    const bool takes_part = member != subset.members.end();
    // Each placement has its share of what the ones before left over.
    const double left = start + options.seconds - session.clock.now();
    const double deadline = session.clock.now() + left / static_cast<double>(subsets.size() - s);

    std::unique_ptr<device::Communicator> communicator;
    std::optional<CollectiveCurve> joined;
    int left_out = 0;
    for (const CollectiveCurve& curve : collective_curves(options.forced && s < 2, options.bf16)) {
      progress(text_of(subset) + ": " + text_of(curve));
      if (!joined || !same_setting(*joined, curve)) {
        // The library reads its environment while a communicator is made: no rank may come too early or late.
        communicator.reset();
        group.barrier();
        std::optional<SettingGuard> guard;
        if (sets_environment) guard.emplace(curve.setting);
        group.barrier();
        device::CommunicatorId id;
        if (leads) id = backend.make_communicator_id();
        id.bytes = group.broadcast(std::move(id.bytes));
        if (takes_part) communicator = session.worker.join(id, rank, subset.placement.ranks);
        joined = curve;
        group.barrier();
      }
      int missing = 0;
      const std::vector<CollectiveEntry> entries = measure_curve(
          session, group, communicator.get(), buffer, curve, subset.placement, options, deadline, missing);
      left_out += missing;
      if (leads && hooks.finished) hooks.finished(entries);
    }
    communicator.reset();
    if (left_out > 0)
      warning("collectives on " + text_of(subset) + ": time ran out, " + std::to_string(left_out) +
              " of the sizes were left out (largest first); give more with --seconds");
  }
  session.worker.release(buffer);
}

}  // namespace foretrain::calibrate
