// The run of one rank: build the model, warm up, train the steps that count, measure them.
#pragma once

#include <functional>
#include <optional>

#include "execute/exchange.hpp"
#include "execute/run_control.hpp"
#include "execute/run_record.hpp"
#include "sim/input/scenario.hpp"

namespace foretrain {

// How long a run is where its scenario has no job.
struct RunLength {
  std::optional<int> steps;  // none: 100, or 20 s of steps and at least 12, whichever ends first
  int warmup = 10;
};
int default_steps(double step_seconds);

struct RankOptions {
  RunLength length;
  // Phases and buckets are timed on every k-th step, so that most steps carry no more events than they need.
  int phase_every = 5;
  std::uint64_t seed = 1;
  int plan_candidates = 3;
  // Called on each rank before it issues a step, counted from the first warm-up step; may be empty.
  std::function<void(int rank, std::int64_t step)> before_step;
};

struct RankPlace {
  int local = 0;  // among the ranks of this process
  int rank = 0, world = 1;
  int node = -1;  // -1: found out when the ranks meet, by their hosts
};

// Fills `record` as it goes: what is there when it throws is whole. Returns what all ranks recorded, in rank
// order, on every rank; empty where the run was stopped.
std::vector<RankRecord> run_rank(const Scenario& scenario, const RankOptions& options, const RankPlace& place,
                                 device::Worker& worker, device::Communicator* communicator,
                                 RunControl& control, RankRecord& record);

}  // namespace foretrain
