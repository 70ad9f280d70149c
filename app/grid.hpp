// The grid of what-ifs of a scenario, computed in parallel.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "app/predicting.hpp"
#include "app/scenarios.hpp"
#include "app/vary.hpp"
#include "sim/output/sweep.hpp"

namespace foretrain::app {

// --vary, required, and --threads.
void add_vary_options(CLI::App& command, std::vector<std::string>& vary, unsigned& threads);
// Throws Error(input) where a key is varied twice.
std::vector<Axis> parse_axes(const std::vector<std::string>& vary);

class Grid {
 public:
  // `options` must outlive the grid. No threads: one a processor.
  Grid(const std::string& file, const PredictingOptions& options, std::vector<Axis> axes, unsigned threads);

  std::size_t size() const { return points_.size(); }
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

  const PredictingOptions& options_;
  std::vector<Axis> axes_;
  unsigned threads_;
  ScenarioSource source_;
  std::vector<std::string> settings_;
  std::vector<Point> points_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace foretrain::app
