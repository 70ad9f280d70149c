#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/grid.hpp"
#include "app/messages.hpp"
#include "app/predicting.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/output/sweep.hpp"

namespace foretrain::app {
namespace {

struct Options : PredictingOptions {
  std::string file;
  std::vector<std::string> vary, zip;
  std::string shard;
  unsigned threads = 0;
};

int sweep(const Options& given) {
  Options options = given;
  std::vector<Axis> axes = parse_axes(options.vary, options.zip);
  const Shard shard = read_shard(options.shard);
  for (std::string* target : {&options.json, &options.csv, &options.report})
    *target = part_name(*target, shard);
  if (!options.trace.empty()) {
    throw Error(ErrorKind::input, "sweep: --trace shows one scenario; use it with simulate --set");
  }
  Grid grid(options.file, options, std::move(axes), options.threads, shard);
  ResultTargets targets(options);
  grid.compute();
  end_progress();
  const Sweep rows = grid.rows();
  if (!rows.complete)
    note(fmt::format("interrupted: {} of {} points are finished", rows.rows.size(), grid.size()));
  if (shard.of > 1) note(fmt::format("part {} of {}: {} points", shard.index + 1, shard.of, grid.size()));
  if (!rows.rows.empty()) targets.write(rows);
  return 0;
}

}  // namespace

Action prepare_sweep(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("SCENARIO", options->file, "a scenario file; - is standard input")->required();
  add_vary_options(command, options->vary, options->zip, options->threads);
  command
      .add_option(
          "--shard", options->shard,
          "compute the i-th of n parts; under mpirun, srun and Slurm arrays each rank takes its own without")
      ->type_name("i/n");
  add_predicting_options(command, *options);
  return [options] { return sweep(*options); };
}

}  // namespace foretrain::app
