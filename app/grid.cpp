#include "app/grid.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "app/messages.hpp"
#include "app/signals.hpp"
#include "sim/base/error.hpp"
#include "sim/job/predict_job.hpp"

namespace foretrain::app {

void add_vary_options(CLI::App& command, std::vector<std::string>& vary, unsigned& threads) {
  command
      .add_option(
          "--vary", vary,
          "values of a key, as in cluster.nodes=1,2,4 or 2..64*2 (factor) or 32..96+32 (step); repeated: the "
          "grid of all")
      ->type_name("PATH=V1,V2,...")
      ->required()
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command.add_option("--threads", threads, "default: one a processor")->type_name("N");
}

std::vector<Axis> parse_axes(const std::vector<std::string>& vary) {
  std::vector<Axis> axes;
  for (const std::string& text : vary) {
    axes.push_back(parse_axis(text));
    const auto same = [&](const Axis& axis) { return axis.path == axes.back().path; };
    if (std::count_if(axes.begin(), axes.end(), same) > 1) {
      throw Error(ErrorKind::input, "sweep: " + axes.back().path + " is varied twice");
    }
  }
  return axes;
}

Grid::Grid(const std::string& file, const PredictingOptions& options, std::vector<Axis> axes,
           unsigned threads)
    : options_(options),
      axes_(std::move(axes)),
      threads_(threads),
      source_(read_source(file)),
      settings_(settings_of(options)),
      points_(grid_size(axes_)) {}

// Points are taken in order by whichever thread is free; each is written by one thread only.
void Grid::compute() {
  const std::size_t wanted = threads_ > 0 ? threads_ : std::thread::hardware_concurrency();
  const std::size_t count = std::clamp<std::size_t>(wanted, 1, points_.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back([this] { work(false); });
  work(true);
}

Sweep Grid::rows() {
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

void Grid::work(bool shows_progress) {
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

Result Grid::result_at(std::size_t i) const {
  std::vector<std::string> settings = settings_;
  const std::vector<std::string> values = values_at(axes_, i);
  for (std::size_t a = 0; a < axes_.size(); ++a) settings.push_back(axes_[a].path + '=' + values[a]);
  JobOptions how;
  how.seed = options_.seed;
  how.remedies = false;  // the sweep itself shows what a change gives
  const Scenario scenario = scenario_from(source_, settings);
  Result result = predict_job(scenario, how);
  result.question = scenario.question;
  return result;
}

}  // namespace foretrain::app
