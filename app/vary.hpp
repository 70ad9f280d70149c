// The grid of a sweep: --vary PATH=V1,V2,... and ranges.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace foretrain::app {

struct Axis {
  std::string path;
  std::vector<std::string> values;  // as the reader of scenarios takes them
};

// "cluster.nodes=1,2,4", "cluster.nodes=2..64*2" (each twice the one before), "batch.per_worker=32..96+32"
// (each 32 more; +1 where nothing is said), "cluster.network.bandwidth=10 Gbit/s..100 Gbit/s*10". Commas
// within brackets or quotes do not separate. Throws Error(input).
Axis parse_axis(const std::string& text);

// The settings of one point of the grid, the last axis varying fastest.
std::vector<std::string> values_at(const std::vector<Axis>& axes, std::size_t point);
// Product of the axes' lengths. Throws Error(input) above a million.
std::size_t grid_size(const std::vector<Axis>& axes);

}  // namespace foretrain::app
