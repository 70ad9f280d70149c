#include "app/grid.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <thread>

#include "app/data_directories.hpp"
#include "app/messages.hpp"
#include "app/signals.hpp"
#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/job/predict_job.hpp"

namespace foretrain::app {

void add_vary_options(CLI::App& command, std::vector<std::string>& vary, std::vector<std::string>& zip,
                      unsigned& threads) {
  command
      .add_option("--zip", zip,
                  "as --vary, but all of these move together: the first values of each, then the second, ...")
      ->type_name("PATH=V1,V2,...")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command
      .add_option(
          "--vary", vary,
          "values of a key, as in cluster.nodes=1,2,4 or 2..64*2 (factor) or 32..96+32 (step); repeated: the "
          "grid of all")
      ->type_name("PATH=V1,V2,...")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command.add_option("--threads", threads, "default: one a processor")->type_name("N");
}

std::vector<Axis> parse_axes(const std::vector<std::string>& vary, const std::vector<std::string>& zip) {
  if (vary.empty() && zip.empty()) {
    throw Error(ErrorKind::input,
                "--vary is required: what varies, as in --vary cluster.nodes=1,2,4 (or --zip)");
  }
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < vary.size() + zip.size(); ++i) {
    const bool is_zipped = i >= vary.size();
    axes.push_back(parse_axis(is_zipped ? zip[i - vary.size()] : vary[i]));
    if (is_zipped) axes.back().option = "--zip";
    axes.back().with_previous = is_zipped && i > vary.size();
    if (axes.back().with_previous && axes.back().values.size() != axes[i - 1].values.size()) {
      throw Error(
          ErrorKind::input,
          fmt::format("--zip: {} has {} values and {} has {}: zipped keys have as many each",
                      axes[i - 1].path, axes[i - 1].values.size(), axes[i].path, axes[i].values.size()));
    }
    const auto same = [&](const Axis& axis) { return axis.path == axes.back().path; };
    if (std::count_if(axes.begin(), axes.end(), same) > 1) {
      throw Error(ErrorKind::input, "sweep: " + axes.back().path + " is varied twice");
    }
  }
  return axes;
}

Grid::Grid(const std::string& file, const PredictingOptions& options, std::vector<Axis> axes,
           unsigned threads, const Shard& shard)
    : options_(options),
      axes_(std::move(axes)),
      threads_(threads),
      source_(read_source(file)),
      settings_(settings_of(options)),
      shard_(shard),
      catalog_(data_directories()),
      points_(shard.count(grid_size(axes_))) {
  catalog_.keep_profiles();
}

// Points are taken in order by whichever thread is free; each is written by one thread only.
void Grid::compute() {
  begin_ = std::chrono::steady_clock::now();
  const std::size_t wanted = threads_ > 0 ? threads_ : std::thread::hardware_concurrency();
  const std::size_t count = std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(1, points_.size()));
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back([this] { work(false); });
  work(true);
}

Sweep Grid::rows() {
  Sweep sweep;
  sweep.scenario = scenario_name(source_);
  sweep.seed = options_.seed;
  for (const Axis& axis : axes_) sweep.axes.push_back(axis.path);
  if (shard_.of > 1) sweep.part = {shard_.index + 1, shard_.of, grid_size(axes_)};
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (points_[i].failure) std::rethrow_exception(points_[i].failure);
    if (points_[i].result) {
      sweep.rows.push_back(
          {values_at(axes_, shard_.point(i)), std::move(*points_[i].result), shard_.point(i)});
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
    if (shows_progress) progress(progress_text(i));
    try {
      points_[i].result = std::make_unique<Result>(result_at(i));
    } catch (...) {
      points_[i].failure = std::current_exception();
      failed_ = true;
    }
  }
}

std::string Grid::progress_text(std::size_t done) const {
  const std::string text = fmt::format("{} of {}", done, points_.size());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  constexpr double soon = 1;
  if (done == 0 || seconds < soon) return text;
  const double left = seconds / static_cast<double>(done) * static_cast<double>(points_.size() - done);
  return text + ", " + format_time(std::ceil(left)) + " left";
}

Result Grid::result_at(std::size_t i) const {
  Overrides settings = settings_;
  const std::vector<std::string> values = values_at(axes_, shard_.point(i));
  for (std::size_t a = 0; a < axes_.size(); ++a)
    settings.emplace_back(axes_[a].path + '=' + values[a], axes_[a].option);
  JobOptions how;
  how.seed = options_.seed;
  how.remedies = false;  // the sweep itself shows what a change gives
  const Scenario scenario = scenario_from(source_, settings, catalog_);
  Result result = predict_job(scenario, how);
  result.question = scenario.question;
  return result;
}

}  // namespace foretrain::app
