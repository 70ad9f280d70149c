// What happened when inside a step, as the trace shows it: slices of work on the tracks of the ranks. Filled
// by the replay where a trace is asked for, written by sim/output/trace.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/units.hpp"

namespace foretrain {

enum class Track { host, compute, communication, copy };
inline constexpr int track_count = 4;
const char* name_of(Track track);

// Slices of one rank and track never overlap in part; they may nest.
struct Slice {
  int rank = 0;
  Track track = Track::compute;
  std::string name;      // "layer1.0.conv1"
  std::string category;  // "forward", "backward", "optimizer", "collective", "launch", ...
  Time start, duration;
  std::vector<std::pair<std::string, std::string>> arguments;  // shown when the slice is selected
};

// An arrow from one slice to one that it sets off: a launch to its kernel, a gradient to its collective. It
// starts inside the first slice and ends inside the second.
struct Flow {
  int from_rank = 0, to_rank = 0;
  Track from_track = Track::host, to_track = Track::compute;
  Time from, to;
};

struct Timeline {
  std::string title;                    // of the scenario
  std::vector<std::string> rank_names;  // "node 0, GPU 3"; may be empty
  std::vector<Slice> slices;
  std::vector<Flow> flows;
};

}  // namespace foretrain
