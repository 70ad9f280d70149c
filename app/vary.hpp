// The grid of a sweep: --vary PATH=V1,V2,... and ranges.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace foretrain::app {

struct Axis {
  std::string path;
  std::vector<std::string> values;  // as the reader of scenarios takes them
  bool with_previous = false;       // moves together with the axis before: they are zipped
  const char* option = "--vary";    // that named it
};

// "cluster.nodes=1,2,4", "cluster.nodes=2..64*2" (each twice the one before), "batch.per_worker=32..96+32"
// (each 32 more; +1 where nothing is said), "cluster.network.bandwidth=10 Gbit/s..100 Gbit/s*10". Commas
// within brackets or quotes do not separate. Throws Error(input).
Axis parse_axis(const std::string& text);

// One part of a grid that several machines divide among themselves: every point whose number is `index`
// modulo `of`.
struct Shard {
  std::size_t index = 0, of = 1;
  bool is_automatic = false;  // by the launcher's ranks: parts have names of their own
  std::size_t count(std::size_t points) const { return points / of + (index < points % of ? 1 : 0); }
  std::size_t point(std::size_t i) const { return index + i * of; }
};
// "2/8": the second of eight. Empty: of the ranks of mpirun or srun, the tasks of a Slurm array, or ranks of
// such tasks, where this process is one of several; else all. Throws Error(input).
Shard read_shard(const std::string& text);
// "out.json" -> "out.2-of-8.json" for an automatic part; "-" and "" stay.
std::string part_name(const std::string& target, const Shard& shard);

// The settings of one point of the grid, the last axis varying fastest; zipped axes move as one.
std::vector<std::string> values_at(const std::vector<Axis>& axes, std::size_t point);
// Product of the axes' lengths, zipped ones once. Throws Error(input) above a million.
std::size_t grid_size(const std::vector<Axis>& axes);

}  // namespace foretrain::app
