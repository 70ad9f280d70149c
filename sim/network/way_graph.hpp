// A topology's links laid out for searches: of each vertex those that leave and those that arrive, with their
// lengths.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/network/topology.hpp"

namespace foretrain {

struct WayLink {
  int other = 0;  // vertex at the far end
  int link = 0;
  std::int8_t length = 0;  // NVLink and memory 2, network and PCIe 3, between host bridges 5
  LinkKind kind = LinkKind::network;
};

class WayGraph {
 public:
  explicit WayGraph(const Topology& topology);

  std::size_t vertices() const { return node_.size(); }
  std::span<const WayLink> leaving(int vertex) const { return leaving_.of(vertex); }
  std::span<const WayLink> arriving(int vertex) const { return arriving_.of(vertex); }
  int node(int vertex) const { return node_[static_cast<std::size_t>(vertex)]; }
  bool is_worker(int vertex) const { return kind_[static_cast<std::size_t>(vertex)] == Kind::worker; }
  // Outside all nodes, or a switch of the network.
  bool is_outside(int vertex) const { return kind_[static_cast<std::size_t>(vertex)] == Kind::outside; }
  static constexpr int longest_link = 5;

 private:
  enum class Kind : std::uint8_t { worker, inside, outside };
  struct Side {
    std::vector<std::uint32_t> first;  // of each vertex, and the end
    std::vector<WayLink> links;
    std::span<const WayLink> of(int vertex) const {
      const auto v = static_cast<std::size_t>(vertex);
      return std::span(links).subspan(first[v], first[v + 1] - first[v]);
    }
  };

  std::vector<int> node_;
  std::vector<Kind> kind_;
  Side leaving_, arriving_;
};

}  // namespace foretrain
