#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "app/messages.hpp"
#include "app/predicting.hpp"
#include "app/scenarios.hpp"
#include "app/signals.hpp"
#include "app/vary.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/output/sweep.hpp"
#include "sim/training/predict.hpp"

namespace foretrain::app {
namespace {

struct Options : PredictingOptions {
  std::string file;
  std::vector<std::string> vary;
  unsigned threads = 0;
};

// One point of the grid: what came out or why nothing did.
struct Point {
  std::unique_ptr<Result> result;
  std::exception_ptr failure;
};

class Grid {
 public:
  Grid(const Options& options, std::vector<Axis> axes)
      : options_(options),
        axes_(std::move(axes)),
        source_(read_source(options.file)),
        settings_(settings_of(options)),
        points_(grid_size(axes_)) {}

  std::size_t size() const { return points_.size(); }

  // Points are taken in order by whichever thread is free; each is written by one thread only.
  void compute() {
    const std::size_t wanted = options_.threads > 0 ? options_.threads : std::thread::hardware_concurrency();
    const std::size_t count = std::clamp<std::size_t>(wanted, 1, points_.size());
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < count; ++i) threads.emplace_back([this] { work(false); });
    work(true);
  }

  // Throws the failure of the first point that has one.
  Sweep rows() {
    Sweep sweep;
    sweep.scenario = scenario_name(source_);
    sweep.seed = options_.seed;
    for (const Axis& axis : axes_) sweep.axes.push_back(axis.path);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (points_[i].failure) std::rethrow_exception(points_[i].failure);
      if (points_[i].result) {
        sweep.rows.push_back({values_at(axes_, i), std::move(*points_[i].result)});
      } else {
        sweep.complete = false;
      }
    }
    return sweep;
  }

 private:
  void work(bool shows_progress) {
    // A point that was taken is computed, so that the first failure is the same however many threads work.
    while (!interrupt_requested() && !failed_) {
      const std::size_t i = next_++;
      if (i >= points_.size()) return;
      if (shows_progress) progress(fmt::format("{} of {}", i, points_.size()));
      try {
        points_[i].result = std::make_unique<Result>(result_at(i));
      } catch (...) {
        points_[i].failure = std::current_exception();
        failed_ = true;
      }
    }
  }

  Result result_at(std::size_t i) const {
    std::vector<std::string> settings = settings_;
    const std::vector<std::string> values = values_at(axes_, i);
    for (std::size_t a = 0; a < axes_.size(); ++a) settings.push_back(axes_[a].path + '=' + values[a]);
    PredictOptions how;
    how.seed = options_.seed;
    how.remedies = false;  // the sweep itself shows what a change gives
    const Scenario scenario = scenario_from(source_, settings);
    Result result = predict(scenario, how);
    result.question = scenario.question;
    return result;
  }

  const Options& options_;
  std::vector<Axis> axes_;
  ScenarioSource source_;
  std::vector<std::string> settings_;
  std::vector<Point> points_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
};

int sweep(const Options& options) {
  std::vector<Axis> axes;
  for (const std::string& text : options.vary) {
    axes.push_back(parse_axis(text));
    const auto same = [&](const Axis& axis) { return axis.path == axes.back().path; };
    if (std::count_if(axes.begin(), axes.end(), same) > 1) {
      throw Error(ErrorKind::input, "sweep: " + axes.back().path + " is varied twice");
    }
  }
  if (!options.trace.empty()) {
    throw Error(ErrorKind::input, "sweep: --trace shows one scenario; use it with simulate --set");
  }
  Grid grid(options, std::move(axes));
  ResultTargets targets(options);
  grid.compute();
  end_progress();
  const Sweep rows = grid.rows();
  if (!rows.complete)
    note(fmt::format("interrupted: {} of {} points are finished", rows.rows.size(), grid.size()));
  if (!rows.rows.empty()) targets.write(rows);
  return 0;
}

}  // namespace

Action prepare_sweep(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("SCENARIO", options->file, "a scenario file; - is standard input")->required();
  command
      .add_option(
          "--vary", options->vary,
          "values of a key, as in cluster.nodes=1,2,4 or 2..64*2 (factor) or 32..96+32 (step); repeated: the "
          "grid of all")
      ->type_name("PATH=V1,V2,...")
      ->required()
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command.add_option("--threads", options->threads, "default: one a processor")->type_name("N");
  add_predicting_options(command, *options);
  return [options] { return sweep(*options); };
}

}  // namespace foretrain::app
