// Collectives replayed message by message as flows over the graph: what the closed forms of plain flows are
// held against. Line rate and latency of the links alone, no constants of a library.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/network/collectives.hpp"
#include "sim/network/routes.hpp"

namespace foretrain {

struct StepwiseOptions {
  int rings = 1;    // rings or pairs of trees, each with its share of the bytes
  int pieces = 64;  // in which trees and chains pass the bytes on
};

struct StepwiseResult {
  Time time;
  std::vector<double> bytes_by_link;
  std::uint64_t flows = 0;
};

// A ring sends step s + 1 of a rank once its step s is through and that of the rank before has arrived; trees
// and chains pass a piece on once it is there, one behind the other on the wire. all_to_all starts everything
// at once.
StepwiseResult replay_stepwise(const Topology& topology, Routes& routes, CollectiveKind kind,
                               CollectiveAlgorithm algorithm, const RankGroup& group, Bytes bytes,
                               const StepwiseOptions& options = {});

}  // namespace foretrain
