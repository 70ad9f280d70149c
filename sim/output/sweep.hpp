// Results of a grid of what-ifs: what was set in each, beside what came out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/output/json_writer.hpp"
#include "sim/output/result.hpp"

namespace foretrain {

struct SweepRow {
  std::vector<std::string> values;  // one of each axis, in order
  Result result;
  std::size_t point = 0;  // number in the whole grid
};

// Which part of a grid that is divided: the index-th of so many, of so many points in all.
struct SweepPart {
  std::size_t index = 1, of = 1, points = 0;
};

struct Sweep {
  std::string scenario;
  std::uint64_t seed = 1;
  bool complete = true;
  SweepPart part;
  std::vector<std::string> axes;  // paths of the keys that vary: "cluster.nodes"
  std::vector<SweepRow> rows;     // the last axis varies fastest

  std::vector<Result> results() const;
  // "nodes=4 bandwidth=25 Gbit/s": short names of the axes with their values.
  std::vector<std::string> names() const;
};

// The last part of a path, as much as tells it from the others: "nodes" for "cluster.nodes".
std::vector<std::string> short_names(const std::vector<std::string>& paths);

// Schema foretrain/result/1 as one object with `rows`, each a result with what was `set` in it.
void write_sweep_json(const Sweep& sweep, const TextSink& sink);
// As write_csv, the axes before the other columns.
void write_sweep_csv(const Sweep& sweep, const TextSink& sink);

}  // namespace foretrain
