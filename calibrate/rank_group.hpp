// The ranks that measure together: threads of one process, or processes of several nodes. Values are
// exchanged so that every rank takes the same decisions.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "calibrate/clock.hpp"

namespace foretrain::calibrate {

class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // One value a rank, in rank order; returns on all ranks after the last has come. Throws foretrain::Error
  // where a rank has failed.
  virtual std::vector<double> all_gather(double value) = 0;
  virtual std::vector<std::byte> broadcast(std::vector<std::byte> from_rank_0) = 0;
  virtual bool failed() = 0;  // a rank has: waiting for it would not end

  void barrier() { all_gather(0); }
  double greatest(double value);
  double least(double value);
};

// Runs work(group) on `ranks` threads and returns when all have ended. Throws what the first failing rank
// threw.
void run_ranks(int ranks, Clock& clock, const std::function<void(RankGroup&)>& work);

}  // namespace foretrain::calibrate
