// Times of the steps that a job is made of: one simulation for each distinct batch and number of workers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "sim/input/scenario.hpp"
#include "sim/output/result.hpp"

namespace foretrain {

class CollectiveModel;

// Seconds.
struct ShapeTime {
  double mean = 0, median = 0;
  double low = 0, high = 0;  // 90 % interval of the median
  double p05 = 0, p95 = 0;   // of single steps
};

// The scenario with the first `workers` of its cluster, which share `batch` (the largest share counts).
// Throws Error (input) where the cluster has fewer.
Scenario with_workers(const Scenario& scenario, int workers, std::int64_t batch);

class StepShapes {
 public:
  // `network` is that of the scenario's cluster; may be null.
  explicit StepShapes(const Scenario& scenario, std::shared_ptr<const CollectiveModel> network = nullptr)
      : scenario_(scenario), network_(std::move(network)) {}

  // A share on so many workers that has been predicted already.
  void remember(std::int64_t share, int workers, const StepPrediction& step);

  // `among_many`: the job has hundreds of batches; shares of 64 samples and more are then interpolated
  // between simulated ones that lie 1.6 to 3.1 % apart.
  ShapeTime of(std::int64_t batch, int workers, bool among_many = false);
  // Seconds of so many forward passes of a worker over `batch` samples each, back to back; the weights are
  // brought to the precision of computing once.
  double passes(std::int64_t batch, std::int64_t count);

  std::size_t simulated() const { return exact_.size(); }
  std::uint64_t events() const { return events_; }

 private:
  struct ForwardTime {
    double pass = 0, begin = 0;
  };
  ForwardTime forward(std::int64_t batch);
  const ShapeTime& exact(std::int64_t share, int workers);

  const Scenario& scenario_;
  std::shared_ptr<const CollectiveModel> network_;
  std::map<std::pair<int, std::int64_t>, ShapeTime> exact_;  // by workers and share
  std::map<std::int64_t, ForwardTime> forward_;
  std::uint64_t events_ = 0;
};

}  // namespace foretrain
