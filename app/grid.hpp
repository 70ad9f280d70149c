// The grid of what-ifs of a scenario, computed in parallel.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "app/predicting.hpp"
#include "app/scenarios.hpp"
#include "app/vary.hpp"
#include "sim/input/catalog.hpp"
#include "sim/output/sweep.hpp"

namespace foretrain::app {

// --vary and --zip, of which one is required, and --threads.
void add_vary_options(CLI::App& command, std::vector<std::string>& vary, std::vector<std::string>& zip,
                      unsigned& threads);
// Those that are zipped come last, and count as one. Throws Error(input) where a key is varied twice, or
// zipped axes are not of one length.
std::vector<Axis> parse_axes(const std::vector<std::string>& vary, const std::vector<std::string>& zip = {});

class Grid {
 public:
  // `options` must outlive the grid. No threads: one a processor.
  Grid(const std::string& file, const PredictingOptions& options, std::vector<Axis> axes, unsigned threads,
       const Shard& shard = {});

  std::size_t size() const { return points_.size(); }  // of this shard
  void compute();
  // What is finished. Throws the failure of the first point that has one.
  Sweep rows();

 private:
  // One point of the grid: what came out or why nothing did.
  struct Point {
    std::unique_ptr<Result> result;
    std::exception_ptr failure;
  };
  void work(bool shows_progress);
  Result result_at(std::size_t i) const;
  std::string progress_text(std::size_t done) const;

  const PredictingOptions& options_;
  std::vector<Axis> axes_;
  unsigned threads_;
  ScenarioSource source_;
  Overrides settings_;
  Shard shard_;
  Catalog catalog_;  // keeps the profiles
  std::chrono::steady_clock::time_point begin_;
  std::vector<Point> points_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace foretrain::app
