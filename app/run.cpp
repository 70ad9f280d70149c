#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/data_directories.hpp"
#include "app/messages.hpp"
#include "app/rank_processes.hpp"
#include "app/scenarios.hpp"
#include "app/signals.hpp"
#include "app/verb.hpp"
#include "device/registry.hpp"
#include "execute/measured_job.hpp"
#include "execute/network_interface.hpp"
#include "execute/noise_scale.hpp"
#include "execute/prediction.hpp"
#include "execute/record_files.hpp"
#include "execute/resource_use.hpp"
#include "execute/run_record_json.hpp"
#include "execute/run_session.hpp"
#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/base/sha256.hpp"
#include "sim/base/utc.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/output/event_file.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain::app {
namespace {

struct Options {
  std::vector<std::string> files, settings, profiles;
  std::string out, device, group, data, checkpoint, costs_from, curve, tensorboard;
  bool resume = false;
  int steps = 0, warmup = 10, repeats = 1, phase_every = 5, noise_every = 0;
  double time_limit = 30;
  double monitor = 100;  // milliseconds
  bool monitor_cost = false;
  bool losses = false;
  double soak = 0;
  std::uint64_t seed = 1;
};

// One run: a scenario, for the n-th time, and where its record goes.
struct Planned {
  const Scenario* scenario = nullptr;
  std::size_t file = 0;
  int repeat = 0;
  std::filesystem::path target;
  const Overrides* overrides = nullptr;
};

std::string whole_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// This process's command line as a shell would take it, the program without its folder.
std::string command_text() {
  const std::string words = whole_file("/proc/self/cmdline");
  std::string text;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find('\0', at), words.size());
    std::string word = words.substr(at, end - at);
    if (at == 0) word = std::filesystem::path(word).filename().string();
    const bool plain =
        !word.empty() && word.find_first_of(" \t\n'\"\\$`&|;<>()*?[]{}~#!") == std::string::npos;
    text += (text.empty() ? "" : " ") + (plain ? word : "'" + word + "'");
    at = end + 1;
  }
  return text;
}

Overrides overrides_of(const Options& options) {
  Overrides overrides(options.settings.begin(), options.settings.end());
  if (!options.profiles.empty())
    overrides.emplace_back("profile=" + profile_list(options.profiles), "--profile");
  return overrides;
}

bool is_record_name(const std::filesystem::path& path) {
  return path.extension() == ".json" || path.extension() == ".gz" || path == "/dev/null";
}

// A scenario and the settings with which it was read.
struct ReadScenario {
  Scenario scenario;
  Overrides overrides;
};

// With the costs of its job that an earlier run measured, where one is named.
ReadScenario read_for_run(const Options& options, const std::string& file, const Catalog& catalog,
                          const std::optional<RunRecord>& costs) {
  ReadScenario out{{}, overrides_of(options)};
  out.scenario = read_scenario(file, catalog, out.overrides);
  if (costs && out.scenario.job) {
    const std::vector<std::string> settings = cost_settings(*costs, *out.scenario.job);
    for (const std::string& setting : settings) note(fmt::format("measured before: --set '{}'", setting));
    out.overrides.insert(out.overrides.end(), settings.begin(), settings.end());
    out.scenario = read_scenario(file, catalog, out.overrides);
  }
  if (!out.scenario.others.empty()) {
    throw Error(
        ErrorKind::input,
        fmt::format("run: {}: 'others' are jobs beside this one, which run does not start: take them out, "
                    "and start each from a scenario of its own; simulate and sweep predict them together",
                    file));
  }
  for (const std::string& hint : out.scenario.warnings) warning(hint);
  // So many steps of the first phase, and no job.
  if (options.steps > 0 && out.scenario.job) {
    if (out.scenario.job->schedule) {
      if (const auto plan = job_plan(out.scenario))
        out.scenario = with_update(out.scenario, plan->begin.next());
    }
    out.scenario.job = nullptr;
  }
  return out;
}

std::optional<RunRecord> costs_of(const std::string& file) {
  if (file.empty()) return std::nullopt;
  RunRecord record = std::move(read_record_files({file}).front().record);
  if (measured_job(record).phases.empty()) {
    throw Error(ErrorKind::input, fmt::format("run: --costs-from: {} is no record of a job", file));
  }
  return record;
}

std::vector<Planned> plan_runs(const Options& options, const std::vector<ReadScenario>& scenarios) {
  std::vector<Planned> runs;
  const bool single = is_record_name(options.out);
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    for (int repeat = 0; repeat < options.repeats; ++repeat) {
      std::filesystem::path target = options.out;
      if (!single) {
        target /= options.repeats > 1 ? fmt::format("{}.{}.json", scenarios[i].scenario.name, repeat + 1)
                                      : scenarios[i].scenario.name + ".json";
      }
      runs.push_back({&scenarios[i].scenario, i, repeat, target, &scenarios[i].overrides});
    }
  }
  if (single && runs.size() > 1) {
    throw Error(ErrorKind::input,
                fmt::format("run: --out names one file for {} runs; name a folder", runs.size()));
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (runs[i].target == runs[j].target && runs[i].target != "/dev/null") {
        throw Error(ErrorKind::input,
                    fmt::format("run: two scenarios are called '{}'", runs[i].scenario->name));
      }
    }
  }
  return runs;
}

// Of the profiles' files, in their order; those of --profile stand where it says.
std::string profile_digest(const Options& options, const Scenario& scenario, const Catalog& catalog) {
  std::string all;
  const std::filesystem::path beside = std::filesystem::path(scenario.file).parent_path();
  for (const std::string& name : options.profiles.empty() ? scenario.profile_names : options.profiles) {
    std::filesystem::path path = beside / name;
    if (const auto shipped = catalog.find(DataKind::profile, name)) path = *shipped;
    if (!std::filesystem::is_regular_file(path)) return "";
    all += whole_file(path);
  }
  return all.empty() ? "" : sha256(all);
}

RunRecord begin_record(const Options& options, const Planned& planned, const Catalog& catalog,
                       const Machine& here) {
  RunRecord record;
  record.complete = false;
  record.date = utc_now();
  record.command = command_text();
  record.foretrain = FORETRAIN_VERSION;
  record.machine = here;
  record.scenario_yaml = whole_file(options.files[planned.file]);
  record.scenario_file = options.files[planned.file];
  for (const Override& each : *planned.overrides) record.overrides.push_back(each.text);
  record.group = options.group;
  record.repeat = planned.repeat;
  record.profile_digest = profile_digest(options, *planned.scenario, catalog);
  describe(*planned.scenario, record);
  try {
    record.prediction = predict_before(*planned.scenario, here, options.seed);
  } catch (const Error& error) {
    warning(fmt::format("{}: it runs without a prediction: {}", planned.scenario->name, error.what()));
  }
  return record;
}

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

// A line a run on standard output.
std::string summary_of(const RunRecord& record) {
  const MeasuredStep measured = measured_step(record);
  std::string text = fmt::format("{}: {} x {} {}, batch {} per worker", record.scenario_name, record.workers,
                                 record.model, name_of(record.precision), record.batch_per_worker);
  if (measured.steps == 0 && record.complete && record.resumed_after > 0) {
    return text +
           fmt::format(": no step is left, the checkpoint of update {} is at the job's end or past it\n",
                       record.resumed_after);
  }
  if (measured.steps == 0) return text + ": no step was finished\n";
  text += fmt::format(": {} a step (5 % {}, 95 % {}; {} steps{})", seconds_text(measured.median),
                      seconds_text(measured.p05), seconds_text(measured.p95), measured.steps,
                      record.complete ? "" : ", interrupted");
  if (record.prediction) {
    text += fmt::format("; predicted {} ({} to {}), error {:+.2f} %", seconds_text(record.prediction->step),
                        seconds_text(record.prediction->low), seconds_text(record.prediction->high),
                        (record.prediction->step / measured.median - 1) * 100);
  }
  text += "\n";
  if (const auto memory = checkpoint_memory(record)) {
    const MeasuredPart written = measured_job(record).checkpoint;
    text +=
        fmt::format("checkpoints: {}resident memory up to {} above its median before them\n",
                    written.count > 0 ? fmt::format("{} each, ", seconds_text(written.time / written.count))
                                      : std::string(),
                    format_bytes(*memory));
  }
  if (record.sequences) {
    const SequencesRecord& rows = *record.sequences;
    text += fmt::format("{}: {:.1f} % padding; {:.4g} units/s, {:.4g} with padding; the mean rank waits {}\n",
                        rows.batching, 100 * rows.padding, rows.useful_per_second, rows.padded_per_second,
                        seconds_text(rows.waiting));
  }
  if (record.noise_looks.empty()) return text;
  if (const auto noise = noise_scale(record.noise_looks)) {
    return text + fmt::format(
                      "gradient noise scale {:.4g} samples ({:.4g} to {:.4g}, {} looks); in a scenario "
                      "job.samples: {{ law: gradient_noise, scale: {:.4g} }}\n",
                      noise->scale, noise->low, noise->high, record.noise_looks.size(), noise->scale);
  }
  return text + fmt::format("gradient noise scale: {} looks do not tell the gradient from its noise\n",
                            record.noise_looks.size());
}

void give_up(const std::string& what) {
  error(what);
  std::_Exit(static_cast<int>(ErrorKind::failure));
}

// However long it takes: a record of hundreds of thousands of steps is not lost at Ctrl-C.
void keep_record(const RunRecord& record, const std::filesystem::path& target) {
  const Patience patience;
  write_run_record(record, target);
}

// What was predicted and what was measured, in one plot: DIR/SCENARIO/predicted and DIR/SCENARIO/measured.
void write_scalars(const RunRecord& record, const std::string& folder) {
  std::vector<ScalarEvent> measured, predicted;
  const auto add = [&](std::vector<ScalarEvent>& to, double time, std::int64_t step, double seconds) {
    to.push_back({time, step, "step_time_s", seconds});
    if (seconds > 0)
      to.push_back({time, step, "samples_per_s",
                    static_cast<double>(record.batch_per_worker * record.workers) / seconds});
  };
  // A step is as long as that of the slowest rank.
  double now = 0;
  std::size_t steps = 0;
  for (const RankRecord& rank : record.ranks) steps = std::max(steps, rank.step.size());
  for (std::size_t i = 0; i < steps; ++i) {
    double slowest = 0;
    for (const RankRecord& rank : record.ranks)
      if (i < rank.step.size()) slowest = std::max(slowest, rank.step[i]);
    now += slowest;
    add(measured, now, static_cast<std::int64_t>(i) + 1, slowest);
    if (record.prediction)
      add(predicted, record.prediction->step * static_cast<double>(i + 1), static_cast<std::int64_t>(i) + 1,
          record.prediction->step);
  }
  for (const RunEvent& event : record.events)
    if (event.what == "adaptation") measured.push_back({now, event.step, "loss", event.loss});
  for (const RankRecord& rank : record.ranks) {
    double end = 0;
    for (std::size_t i = 0; i < std::min(rank.loss.size(), rank.step.size()); ++i)
      measured.push_back({end += rank.step[i], static_cast<std::int64_t>(i) + 1,
                          fmt::format("loss/rank{}", rank.rank), rank.loss[i]});
  }
  for (const MonitorSeries& series : record.monitor) {
    const std::string tag = fmt::format("{}/node{}{}", series.what, series.node,
                                        series.device < 0 ? "" : fmt::format(".gpu{}", series.device));
    for (std::size_t i = 0; i < std::min(series.time.size(), series.value.size()); ++i)
      measured.push_back({std::max(0.0, series.time[i]), static_cast<std::int64_t>(i), tag, series.value[i]});
  }
  write_event_file(folder, record.scenario_name, "measured", measured);
  if (record.prediction) write_event_file(folder, record.scenario_name, "predicted", predicted);
}

// The losses that a schedule saw, as job.curve takes them.
void write_curve(const RunRecord& record, const std::string& path) {
  std::string text = "updates,loss\n";
  for (const RunEvent& event : record.events) {
    if (event.what == "adaptation") text += fmt::format("{},{}\n", event.step, event.loss);
  }
  write_file(path, text);
}

void run_one(const Options& options, const Planned& planned, const Catalog& catalog, RunSession& session,
             device::Backend& backend) {
  const bool writes = session.is_first(*planned.scenario);
  RunRecord record = begin_record(options, planned, catalog, backend.machine());
  if (writes) {
    if (options.resume && std::filesystem::exists(options.checkpoint) &&
        std::filesystem::is_regular_file(planned.target))
      warning(fmt::format("{}: the record {} of before is replaced by that of the updates from here on",
                          record.scenario_name, planned.target.string()));
    if (const std::string what = memory_warning(*planned.scenario, record.machine); !what.empty())
      warning(record.scenario_name + ": " + what);
    if (const std::string what = device_warning(*planned.scenario, record.machine); !what.empty())
      warning(record.scenario_name + ": " + what);
    // Before the first step: what was predicted stands on disk whatever happens.
    keep_record(record, planned.target);
    if (record.prediction) {
      note(fmt::format("{}: predicted {} a step, digest {}", record.scenario_name,
                       seconds_text(record.prediction->step), record.prediction->digest));
    }
  }
  RunOptions how;
  how.time_limit = options.time_limit;
  how.monitor = options.monitor * 1e-3;
  how.monitor_cost = options.monitor_cost;
  how.rank.length.warmup = options.warmup;
  how.rank.length.soak = options.soak;
  if (options.steps > 0) how.rank.length.steps = options.steps;
  how.rank.phase_every = options.phase_every;
  how.rank.seed = options.seed;
  how.rank.noise_every = options.noise_every;
  how.rank.each_loss = options.losses;
  how.rank.data = make_data_source(options.data, *planned.scenario->model, options.seed);
  how.job = job_plan(*planned.scenario);
  if (writes && how.job && how.job->saves && options.checkpoint.empty())
    warning(record.scenario_name + ": no checkpoint is written, for --checkpoint names no file");
  if (writes && !options.checkpoint.empty() && !(how.job && how.job->saves))
    warning(record.scenario_name + ": no checkpoint is written, for the run has no job.checkpoint");
  how.checkpoint = options.checkpoint;
  how.resume = options.resume;
  RunCallbacks callbacks;
  callbacks.stop = &interrupt_requested();
  std::int64_t shown = -1;
  callbacks.progress = [&](std::int64_t steps) {
    if (!writes || steps == shown) return;
    shown = steps;
    progress(fmt::format("{}: step {}", record.scenario_name, steps));
  };
  callbacks.give_up = give_up;
  try {
    session.run(*planned.scenario, how, callbacks, record);
  } catch (...) {
    end_progress();
    if (writes) keep_record(record, planned.target);
    throw;
  }
  end_progress();
  if (!writes) return;
  keep_record(record, planned.target);
  if (!options.curve.empty()) write_curve(record, options.curve);
  if (!options.tensorboard.empty()) write_scalars(record, options.tensorboard);
  for (const ClockRecord& clock : record.clocks) detail(record.scenario_name + ": " + clock_text(clock));
  for (const MonitorFinding& finding : record.findings) {
    detail(fmt::format("{}: {}{}{}: {}", record.scenario_name, finding.what,
                       finding.cause.empty() ? "" : " by ", finding.cause, finding.text));
  }
  write_file("-", summary_of(record));
}

// Of each worker, on a backend that computes on the host's cores. Devices stay open between the runs.
int threads_of(const std::vector<ReadScenario>& scenarios) {
  std::set<int> threads;
  for (const ReadScenario& read : scenarios)
    threads.insert(read.scenario.host ? read.scenario.host->threads : 1);
  if (threads.size() > 1)
    throw Error(ErrorKind::input,
                "run: the scenarios have different host.threads: run them one by one, for workers keep their "
                "threads");
  return *threads.begin();
}

// Processes to start for `host: { processes: per_gpu }`; 1 where a launcher has started this one, or nobody
// asks for it.
int processes_of(const std::vector<ReadScenario>& scenarios, const LaunchEnvironment& launch) {
  std::set<int> wanted;
  for (const ReadScenario& read : scenarios) {
    const Topology& topology = read.scenario.cluster.topology;
    const bool asks = read.scenario.host && read.scenario.host->process_a_worker && topology.nodes == 1;
    wanted.insert(asks ? static_cast<int>(topology.workers.size()) : 1);
  }
  if (launch.kind != LaunchEnvironment::Kind::process_a_worker && launch.node == 0) {
    for (const ReadScenario& read : scenarios) {
      const Topology& topology = read.scenario.cluster.topology;
      const bool shares = topology.nodes > 1 && static_cast<int>(topology.workers.size()) > topology.nodes;
      if (!shares || !read.scenario.host || !read.scenario.host->process_a_worker) continue;
      warning(
          fmt::format("{}: host.processes: per_gpu is predicted, but the workers of a node run in one "
                      "process here: on several nodes start a process a worker with mpirun, srun or torchrun",
                      read.scenario.name));
    }
  }
  if (launch.kind != LaunchEnvironment::Kind::alone) return 1;
  if (wanted.size() > 1)
    throw Error(ErrorKind::input,
                "run: with host.processes: per_gpu all scenarios of a command need as many workers: run them "
                "one by one");
  return *wanted.begin();
}

// Before anything is written: no output is another one or an input.
void check_outputs(const Options& options, const std::vector<Planned>& runs) {
  if (options.out == "-" || (!is_record_name(options.out) && std::filesystem::exists(options.out) &&
                             !std::filesystem::is_directory(options.out))) {
    throw Error(
        ErrorKind::input,
        fmt::format("run: --out {}: a record is called .json or .json.gz; else it is a folder", options.out));
  }
  const auto is_same = [](const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code error;
    return std::filesystem::weakly_canonical(a, error) == std::filesystem::weakly_canonical(b, error);
  };
  for (const Planned& planned : runs) {
    for (const auto& [name, path] :
         {std::pair("--checkpoint", options.checkpoint), std::pair("--curve", options.curve)}) {
      if (!path.empty() && is_same(path, planned.target))
        throw Error(ErrorKind::input, fmt::format("run: --out and {} both write to {}", name, path));
    }
    for (const std::string& file : options.files) {
      if (is_same(file, planned.target))
        throw Error(ErrorKind::input, fmt::format("run: --out would overwrite the scenario {}", file));
    }
  }
}

// By the process that writes; a folder may be missing on the others' nodes. What is written after hours of
// training can be written now.
void check_folders(const Options& options, bool saves) {
  for (const std::string& path : {options.checkpoint, options.curve}) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder))
      throw Error(ErrorKind::input,
                  fmt::format("{}: cannot write: there is no folder {}", path, folder.string()));
    const bool is_written = !path.empty() && (saves || path != options.checkpoint);
    // A device or a pipe is opened when there is something to write.
    if (is_written && (!std::filesystem::exists(path) || std::filesystem::is_regular_file(path))) {
      const FileWriter unused(path);
    }
  }
}

int run(const Options& options) {
  const Catalog catalog(data_directories());
  std::vector<ReadScenario> scenarios;
  const std::optional<RunRecord> costs = costs_of(options.costs_from);
  for (const std::string& file : options.files)
    scenarios.push_back(read_for_run(options, file, catalog, costs));
  const std::vector<Planned> runs = plan_runs(options, scenarios);
  if (options.resume && options.checkpoint.empty()) {
    throw Error(ErrorKind::input, "run: --resume needs --checkpoint FILE");
  }
  if (!options.curve.empty() && runs.size() > 1) {
    throw Error(ErrorKind::input, "run: --curve names one file for several runs");
  }
  if (!options.checkpoint.empty() && runs.size() > 1) {
    throw Error(ErrorKind::input, "run: --checkpoint names one file for several runs");
  }
  check_outputs(options, runs);
  // Where workers compute on the host's cores.
  ::setenv("FORETRAIN_THREADS", std::to_string(threads_of(scenarios)).c_str(), 1);
  const auto environment = [](const char* name) -> const char* { return std::getenv(name); };
  const int processes = processes_of(scenarios, read_launch_environment(environment));
  std::optional<RankProcesses> others;  // before a device is used, which no process inherits
  if (processes > 1) others.emplace(processes);
  device::Backend& backend = device::choose_backend(options.device);
  RunSession session(backend, read_launch_environment(environment), environment);
  const bool saves = std::any_of(scenarios.begin(), scenarios.end(), [](const ReadScenario& read) {
    const std::optional<JobPlan> job = job_plan(read.scenario);
    return job && job->saves;
  });
  if (session.is_first(scenarios.front().scenario)) check_folders(options, saves);
  for (const ReadScenario& read : scenarios) {
    // All mismatches before the first run.
    const LocalWorkers local = session.local_workers(read.scenario);
    if (local.spans_processes) check_network_interface(environment, local.first_rank);
  }
  if (!is_record_name(options.out)) {
    std::error_code error;
    std::filesystem::create_directories(options.out, error);
    if (error) {
      throw Error(ErrorKind::input,
                  fmt::format("run: --out {}: cannot make the folder: {}", options.out, error.message()));
    }
  }
  if (scenarios.size() > 1) {
    RunCallbacks callbacks;
    callbacks.stop = &interrupt_requested();
    callbacks.give_up = give_up;
    for (const ReadScenario& read : scenarios) {
      const std::optional<JobPlan> job = job_plan(read.scenario);
      session.join_ahead(read.scenario, job ? &*job : nullptr, callbacks);
    }
  }
  for (const Planned& planned : runs) {
    if (interrupt_requested()) break;
    run_one(options, planned, catalog, session, backend);
  }
  return others ? others->wait() : 0;
}

}  // namespace

Action prepare_run(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("SCENARIO", options->files, "scenario files")->required();
  command.add_option("--out", options->out, "the run record (.json, .json.gz), or a folder for one a run")
      ->type_name("RUN.json|FOLDER")
      ->required();
  command
      .add_option(
          "--steps", options->steps,
          "steps that count (default: the scenario's job; without one 100, or 20 s of steps and at least 12)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000));
  command.add_option("--warmup", options->warmup, "steps before those (default 10)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  command
      .add_option("--soak", options->soak,
                  "seconds of steps before the warm-up, for clocks and temperature of a long run (default 0)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 3600.0));
  command.add_option("--repeats", options->repeats, "runs of each scenario (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  command
      .add_option("--device", options->device,
                  "cuda, cpu or reference (default: cuda where a GPU answers, else cpu)")
      ->type_name("NAME");
  command
      .add_option("--time-limit", options->time_limit,
                  "seconds without progress after which a run is given up (default 30)")
      ->type_name("SECONDS")
      ->check(CLI::Range(1e-3, 1e6));
  command
      .add_option("--phase-every", options->phase_every,
                  "time phases and buckets in every n-th step (default 5)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  command
      .add_option("--monitor", options->monitor,
                  "milliseconds between two samples of GPUs, process and network (default 100; 0: none)")
      ->type_name("MS")
      ->check(CLI::Range(0.0, 3.6e6));
  command.add_flag("--monitor-cost", options->monitor_cost,
                   "measure what sampling costs, in steps with and without it after those that count");
  command
      .add_option(
          "--noise-scale", options->noise_every,
          "look at the noise of gradients after every n-th step that counts, over 8 batches each; needs "
          "--data")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000));
  command.add_flag(
      "--losses", options->losses,
      "keep the loss of every step that counts; the host then waits for each, and steps take longer");
  command
      .add_option("--data", options->data,
                  "synthetic (default), learnable, cifar10:FOLDER, text:PATH, words:PATH")
      ->type_name("KIND");
  command
      .add_option("--checkpoint", options->checkpoint,
                  "where a job's checkpoints go, as often as the scenario says")
      ->type_name("FILE");
  command.add_flag("--resume", options->resume,
                   "go on from the checkpoint, where there is one; --out holds the updates from there on");
  command
      .add_option(
          "--costs-from", options->costs_from,
          "the record of an earlier run of a job: its start-up, changes of workers and batch and rate of "
          "checkpoints stand in the prediction")
      ->type_name("RUN.json");
  command
      .add_option("--curve", options->curve,
                  "where to write the losses that an adadamp schedule saw, as job.curve takes them")
      ->type_name("FILE.csv");
  command
      .add_option("--tensorboard", options->tensorboard,
                  "write steps, what the monitor saw and what was predicted as TensorBoard's scalars")
      ->type_name("DIR");
  command.add_option("--group", options->group, "name of the campaign, kept in the record")
      ->type_name("NAME");
  command.add_option("--seed", options->seed, "of weights and data (default 1)")->type_name("N");
  command
      .add_option("--set", options->settings,
                  "set any key of the scenario, as in cluster.nodes=4; may be repeated")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command.add_option("--profile", options->profiles, "a profile in place of the scenario's; may be repeated")
      ->type_name("NAME|FILE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  return [options] { return run(*options); };
}

}  // namespace foretrain::app
