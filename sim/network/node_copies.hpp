// Nodes of a cluster that are copies of each other: the same inside, the numbers of vertices and links moved
// by a constant. What is found out about one holds for all.
#pragma once

#include <vector>

#include "sim/network/way_graph.hpp"

namespace foretrain {

// To be taken off the numbers of a node's vertices and of the links within it for those of the first node of
// its like.
struct NodeShift {
  int vertex = 0, link = 0;
};

class NodeCopies {
 public:
  explicit NodeCopies(const WayGraph& graph);

  // Zero where a node is the first of its like, or like no other; -1 is outside all nodes.
  NodeShift shift(int node) const { return node >= 0 ? shift_[static_cast<std::size_t>(node)] : NodeShift{}; }

 private:
  std::vector<NodeShift> shift_;
};

}  // namespace foretrain
