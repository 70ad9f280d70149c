#include "sim/network/node_copies.hpp"

#include <algorithm>
#include <optional>

namespace foretrain {
namespace {

struct Range {
  int first = 0, count = 0;  // vertices of a node; 0: none, or not in one piece
};

std::vector<Range> ranges_of(const WayGraph& graph) {
  std::vector<Range> ranges;
  std::vector<char> is_split;
  for (int v = 0; v < static_cast<int>(graph.vertices()); ++v) {
    const int node = graph.node(v);
    if (node < 0) continue;
    const auto n = static_cast<std::size_t>(node);
    if (n >= ranges.size()) {
      ranges.resize(n + 1);
      is_split.resize(n + 1, 0);
    }
    Range& range = ranges[n];
    if (range.count == 0) range.first = v;
    if (range.first + range.count != v) is_split[n] = 1;
    ++range.count;
  }
  for (std::size_t n = 0; n < ranges.size(); ++n) {
    if (is_split[n]) ranges[n].count = 0;
  }
  return ranges;
}

class Comparison {
 public:
  Comparison(const WayGraph& graph, const Range& node, const Range& like)
      : graph_(graph), node_(node), like_(like), shift_{node.first - like.first, 0} {}

  std::optional<NodeShift> shift() {
    if (node_.count == 0 || node_.count != like_.count) return std::nullopt;
    for (int v = node_.first; v < node_.first + node_.count; ++v) {
      const int like = v - shift_.vertex;
      const bool is_same =
          graph_.is_worker(v) == graph_.is_worker(like) && graph_.is_outside(v) == graph_.is_outside(like);
      if (!is_same || !are_same(graph_.leaving(v), graph_.leaving(like)) ||
          !are_same(graph_.arriving(v), graph_.arriving(like))) {
        return std::nullopt;
      }
    }
    return shift_;
  }

 private:
  // Links that leave the node may lead anywhere outside.
  bool are_same(std::span<const WayLink> links, std::span<const WayLink> likes) {
    if (links.size() != likes.size()) return false;
    for (std::size_t i = 0; i < links.size(); ++i) {
      const WayLink &link = links[i], &like = likes[i];
      if (link.length != like.length || link.kind != like.kind) return false;
      if (graph_.is_outside(link.other) != graph_.is_outside(like.other)) return false;
      if (graph_.is_outside(link.other)) continue;
      if (link.other < node_.first || link.other >= node_.first + node_.count ||
          link.other - like.other != shift_.vertex) {
        return false;
      }
      if (!knows_link_) shift_.link = link.link - like.link;
      knows_link_ = true;
      if (link.link - like.link != shift_.link) return false;
    }
    return true;
  }

  const WayGraph& graph_;
  const Range &node_, &like_;
  NodeShift shift_;
  bool knows_link_ = false;
};

}  // namespace

NodeCopies::NodeCopies(const WayGraph& graph) {
  const std::vector<Range> ranges = ranges_of(graph);
  shift_.resize(ranges.size());
  std::size_t like = 0;
  for (std::size_t n = 1; n < ranges.size(); ++n) {
    if (const auto shift = Comparison(graph, ranges[n], ranges[like]).shift()) {
      shift_[n] = *shift;
    } else if (ranges[n].count > 0) {
      like = n;
    }
  }
}

}  // namespace foretrain
