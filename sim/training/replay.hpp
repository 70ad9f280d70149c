// Runs a step graph by events: each rank has a host thread that issues, and a compute, a communication and a
// copy stream that execute in order. Collectives start once all ranks of their group have joined; while one
// runs, kernels and collective slow each other down.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/output/timeline.hpp"
#include "sim/training/step_graph.hpp"

namespace foretrain {
class HostTimes;
class ReplayProgram;
}  // namespace foretrain

namespace foretrain {

// How long a collective takes by itself, and what it and the kernels beside it cost each other (factors >=
// 1).
struct CollectiveTiming {
  Time alone;                      // as one of a chain
  double compute_slowdown = 1;     // of kernels on the ranks that take part, while it runs
  double collective_slowdown = 1;  // of the collective, while a kernel runs on one of them
  Time start;                      // on top (or less) where the streams of its ranks were idle before it
  Time wait = Time();              // then it begins later by this, and all ranks wait
};
using CollectiveTimer = std::function<CollectiveTiming(const ProcessGroup&, const Operation&)>;

// A collective that runs, of a group of the graph.
struct RunningCollective {
  int group = 0;
  const Operation* operation = nullptr;
};
// How many times as long each of those that run at one time takes, because they share links.
using CollectiveSharing = std::function<std::vector<double>(std::span<const RunningCollective>)>;

// Ranks that do the same thing in the same place at the same speed, replayed once. Plain replay: one class a
// rank.
struct RankClass {
  int program = 0;
  std::int64_t count = 1;
  double compute_factor = 1;  // on every kernel's time
  double host_factor = 1;     // on every host time
};

struct ReplayInput {
  const StepGraph* graph = nullptr;
  std::span<const ReplayProgram> programs;  // of the graph, where they are made for several replays
  // Likewise, by program and factor: those that a replay lacks are added.
  std::map<std::pair<int, double>, HostTimes>* host_times = nullptr;
  std::vector<RankClass> classes;
  std::vector<int> class_of_rank;  // every rank of the graph; a class runs one program
  CollectiveTimer timer;
  CollectiveSharing sharing;  // empty: collectives of different groups do not meet
  // Classes from here on belong to other jobs, which go on until the first ones have done their steps; of
  // these the median step is reported. 0: all are ours.
  std::size_t own_classes = 0;
  Time launch_latency;     // launch call to start on an idle device
  int queue_depth = 1024;  // launches that may be outstanding before the host blocks
  // Classes whose slices are kept: all, or one (with many classes all of them are gigabytes).
  int recorded_class = -1;
  bool keeps_slices = true;
  int steps = 4;  // one after the other without a pause; the last one is reported where the job is alone
};

// Each class of ranks its own class, without noise: the plain replay.
ReplayInput plain_replay(const StepGraph& graph);
// Ranks of equal programs in one class.
ReplayInput symmetric_replay(const StepGraph& graph);

// One operation of one class in one step on one track. A collective has two: waiting until all have joined,
// then itself.
struct ReplaySlice {
  int rank_class = 0;
  int step = 0;
  int operation = 0;
  Track track = Track::compute;
  bool waiting = false;
  Time start, end;
  Time busy;  // of the device within [start, end]: less where the host was too slow
};

struct RankStep {
  Time begin, end;  // of the reported step on the compute stream
  Time duration() const { return end - begin; }
};

struct ReplayResult {
  Time step;           // of the class that ends last
  int slowest = 0;     // class with the most work on its compute stream
  int reported = 0;    // step
  bool steady = true;  // the last two steps agree to 0.1 %
  std::vector<RankStep> classes;
  std::vector<ReplaySlice> slices;  // of the reported step and the one before, by order of their end
  std::uint64_t events = 0;
};

// Throws Error (failure) where the graph cannot finish: ranks that wait for each other, or time out of range.
ReplayResult replay(const ReplayInput& input);

}  // namespace foretrain
