// All curves of collectives over all placements of the ranks at hand.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "calibrate/collectives.hpp"

namespace foretrain::calibrate {

// Ranks of the group that take part, ascending and beginning with 0, and how they stand.
struct RankSubset {
  Placement placement;
  std::vector<int> members;
};

// 2..ranks on one node: all of them first, then 2, then the others.
std::vector<RankSubset> local_subsets(int ranks, const std::string& network);

// Ranks by the nodes they run on (node_of_rank, any equal names are one node): all on all nodes first, then
// fewer nodes and fewer GPUs a node in powers of two. Only placements over two nodes or more; nodes with
// fewer GPUs than others count with the least.
std::vector<RankSubset> node_subsets(const std::vector<int>& node_of_rank, const std::string& network,
                                     double line_rate);

struct SuiteHooks {
  std::function<void(const std::string&)> progress;  // called on rank 0
  std::function<void(const std::string&)> warning;   // called on rank 0
  // Called on rank 0 after each curve.
  std::function<void(const std::vector<CollectiveEntry>&)> finished;
};

// To be called on all ranks of the group at once. `sets_environment` is true on one rank of each process.
// Where time runs out, what is left out is told as a warning.
void measure_collectives(Session& session, RankGroup& group, device::Backend& backend,
                         const std::vector<RankSubset>& subsets, const CollectiveOptions& options,
                         bool sets_environment, const SuiteHooks& hooks);

}  // namespace foretrain::calibrate
