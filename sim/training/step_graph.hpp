// What one optimizer step makes every rank do: a program a rank, over named process groups. Strategies build
// it (sim/training/strategies), the replay runs it (sim/training/replay).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/collective_kind.hpp"

namespace foretrain {

enum class Phase : std::uint8_t { forward, backward, optimizer, communication, input };
const char* name_of(Phase phase);

enum class StreamId : std::uint8_t { compute, communication, copy };
inline constexpr int stream_count = 3;

// Work that the host launches onto a stream. The host issues a program's operations in order; a stream runs
// its own in that order, each once all it depends on has finished.
struct Operation {
  std::string name;
  Phase phase = Phase::forward;
  StreamId stream = StreamId::compute;
  Time host;    // of the host thread, to issue all launches
  Time device;  // on the stream, alone; unused by collectives
  int launches = 1;
  std::vector<int>
      after;  // operations of the same program and step, on other streams, that must have finished
  // A collective: all ranks of the group take part; the n-th of a group on one rank meets the n-th on the
  // others.
  int group = -1;  // index into StepGraph::groups, -1 where it is none
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes;
  int root = 0;
};

struct RankProgram {
  std::vector<Operation> operations;
};

struct ProcessGroup {
  std::string name;
  std::vector<int> ranks;  // increasing
};

struct StepGraph {
  std::vector<ProcessGroup> groups;
  std::vector<RankProgram> programs;
  std::vector<int> program_of_rank;  // index into programs

  int ranks() const { return static_cast<int>(program_of_rank.size()); }
};

// Throws where a rank takes part in a group's collectives and another rank of that group does not take part
// in equally many of the same kind and size, or where a dependency points at itself or forwards.
void validate(const StepGraph& graph);

// A kernel of more launches (an unrolled recurrence is thousands) becomes several in a row of equal shares:
// its host goes on as the device takes launches off a queue that holds fewer.
void split_long_operations(RankProgram& program, int most_launches);

}  // namespace foretrain
