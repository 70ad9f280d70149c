// Algorithms that go by rounds: halving and doubling, hierarchical, parameter servers, Gloo's bcube.
#include <fmt/format.h>

#include <bit>

#include "sim/base/error.hpp"
#include "sim/network/collectives.hpp"

namespace foretrain {
namespace {

// Partners at half the ranks, a quarter, ... exchange halves of what they still have: S/2, S/4, ... With a
// number of ranks that is no power of two the ranks above it first give all they have to one below, and have
// the result from it last.
std::vector<Round> halving_doubling(CollectiveKind kind, int ranks) {
  const int even = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  std::vector<Round> halving, doubling;
  for (int distance = even / 2; distance >= 1; distance /= 2) {
    Round round;
    const double share = static_cast<double>(distance) / even;
    for (int rank = 0; rank < even; ++rank) round.transfers.push_back({rank, rank ^ distance, share});
    halving.push_back(round);
    doubling.insert(doubling.begin(), round);
  }
  Round before, after;
  const bool is_gather = kind == CollectiveKind::all_gather,
             is_scatter = kind == CollectiveKind::reduce_scatter;
  for (int rank = even; rank < ranks; ++rank) {
    before.transfers.push_back({rank, rank - even, is_gather ? 1.0 / ranks : 1.0});
    after.transfers.push_back({rank - even, rank, is_scatter ? 1.0 / ranks : 1.0});
  }
  std::vector<Round> all;
  if (ranks > even) all.push_back(before);
  if (!is_gather) all.insert(all.end(), halving.begin(), halving.end());
  if (!is_scatter) all.insert(all.end(), doubling.begin(), doubling.end());
  if (ranks > even) all.push_back(after);
  return all;
}

std::vector<Round> hierarchical(const RankGroup& group) {
  const auto per_node = group.by_node.front().size();
  for (const std::vector<int>& node : group.by_node) {
    if (node.size() != per_node) {
      throw Error(ErrorKind::input,
                  fmt::format("hierarchical: nodes take part with {} and {} ranks; it needs equal numbers",
                              per_node, node.size()));
    }
  }
  const auto nodes = static_cast<std::size_t>(group.nodes);
  const double part = 1.0 / static_cast<double>(per_node);
  Round inside, between;
  for (std::size_t n = 0; n < nodes; ++n) {
    for (std::size_t g = 0; g < per_node; ++g) {
      const int rank = group.by_node[n][g];
      if (group.node_rings.empty() || group.node_rings[n].empty())
        inside.transfers.push_back({rank, group.by_node[n][(g + 1) % per_node], part});
      between.transfers.push_back(
          {rank, group.by_node[(n + 1) % nodes][g], 1.0 / static_cast<double>(per_node * nodes)});
    }
    if (group.node_rings.empty()) continue;
    for (const std::vector<int>& ring : group.node_rings[n]) {
      for (std::size_t i = 0; i < per_node; ++i)
        inside.transfers.push_back(
            {ring[i], ring[(i + 1) % per_node], part / static_cast<double>(group.node_rings[n].size())});
    }
  }
  inside.repeat = static_cast<int>(per_node) - 1;
  between.repeat = 2 * (static_cast<int>(nodes) - 1);
  std::vector<Round> all;
  if (inside.repeat > 0) all.push_back(inside);
  if (between.repeat > 0) all.push_back(between);
  if (inside.repeat > 0) all.push_back(inside);
  return all;
}

// A shard a server, which stands beside the first rank of each node.
std::vector<Round> parameter_server(const RankGroup& group) {
  const double share = 1.0 / group.nodes;
  Round push, pull;
  for (const std::vector<int>& node : group.by_node) {
    for (int rank = 0; rank < group.ranks; ++rank) {
      if (rank == node.front()) continue;
      push.transfers.push_back({rank, node.front(), share});
      pull.transfers.push_back({node.front(), rank, share});
    }
  }
  return {push, pull};
}

// Gloo's, with its base of two (gloo/allreduce.cc): two neighbours exchange halves of what each has summed up
// so far, then the neighbours of pairs, of fours; what is left of a number of ranks without a factor of two
// is one group. A rank then has its part of all, and the same exchanges the other way round bring all parts.
std::vector<Round> bcube(int ranks) {
  std::vector<int> sizes;
  int left = ranks;
  for (; left % 2 == 0; left /= 2) sizes.push_back(2);
  if (left > 1) sizes.push_back(left);
  std::vector<Round> there;
  double has = 1;
  int stride = 1;
  for (const int size : sizes) {
    Round round;
    for (int rank = 0; rank < ranks; ++rank) {
      const int place = rank / stride % size;
      for (int other = 0; other < size; ++other)
        if (other != place) round.transfers.push_back({rank, rank + (other - place) * stride, has / size});
    }
    there.push_back(std::move(round));
    has /= size;
    stride *= size;
  }
  std::vector<Round> all = there;
  all.insert(all.end(), there.rbegin(), there.rend());
  return all;
}

}  // namespace

std::vector<Round> rounds(CollectiveKind kind, CollectiveAlgorithm algorithm, const RankGroup& group) {
  if (group.ranks < 2) return {};
  if (algorithm == CollectiveAlgorithm::halving_doubling) return halving_doubling(kind, group.ranks);
  if (algorithm == CollectiveAlgorithm::hierarchical) return hierarchical(group);
  if (algorithm == CollectiveAlgorithm::parameter_server) return parameter_server(group);
  if (algorithm == CollectiveAlgorithm::bcube) return bcube(group.ranks);
  return {};
}

}  // namespace foretrain
