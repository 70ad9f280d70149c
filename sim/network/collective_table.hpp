// What nccl-tests would show for a collective on a cluster: time, algorithm and bus bandwidth by size.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/network/collective_cost.hpp"

namespace foretrain {

struct CollectiveRow {
  Bytes bytes;
  double seconds = 0;
  double algorithm_bandwidth = 0, bus_bandwidth = 0;  // bytes per second, as nccl-tests counts them
  std::string algorithm, protocol;                    // protocol empty for plain flows
  Origin origin = Origin::assumed;
  double relative_uncertainty = 0;  // 90 % half width; 0 for plain flows, which are exact
  bool extrapolated = false;
  std::string range;
};

struct CollectiveTable {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::string topology;
  int ranks = 0, nodes = 0;
  bool stepwise = false;
  std::vector<CollectiveRow> rows;
};

struct CollectiveRequest {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::vector<Bytes> sizes;
  CollectiveChoice choice;
  bool stepwise = false;  // replayed message by message as plain flows: line rate and latency, no library
};

// "64MiB", "1KiB,1MiB", "1KiB..1GiB*4" (a factor from size to size, 2 without). Throws Error(input) that says
// what is allowed; at most 1,000 sizes.
std::vector<Bytes> parse_sizes(std::string_view text);

// All ranks of the topology take part. The profile may be null.
CollectiveTable collective_table(const Topology& topology, const Profile* profile,
                                 const CollectiveRequest& request);

}  // namespace foretrain
