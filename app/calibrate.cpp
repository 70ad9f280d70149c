#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/data_directories.hpp"
#include "app/messages.hpp"
#include "app/signals.hpp"
#include "app/verb.hpp"
#include "calibrate/calibrate.hpp"
#include "calibrate/rendezvous.hpp"
#include "calibrate/request_reader.hpp"
#include "device/registry.hpp"
#include "execute/reprediction.hpp"
#include "sim/base/error.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/document.hpp"
#include "sim/input/model_reader.hpp"
#include "sim/input/profile_join.hpp"
#include "sim/input/profile_json.hpp"
#include "sim/output/file_writer.hpp"
#include "sim/training/overlap_fit.hpp"

namespace foretrain::app {
namespace {

struct Options {
  std::string model, batches, precisions = "fp32", out, device, network, rendezvous, checks;
  std::vector<std::string> bucket_models;
  int gpus = 0, threads = 1;
  std::int64_t sequence = 0;
  bool collectives = false, append = false;
  double seconds = 0;
  std::uint64_t seed = 1;
};

// This process's command line as a shell would take it, the program without its folder.
std::string command_text() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string words((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::string text;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find('\0', at), words.size());
    std::string word = words.substr(at, end - at);
    if (at == 0) word = std::filesystem::path(word).filename().string();
    const bool plain = word.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                           "-_=.,/:+@%") == std::string::npos;
    text += (text.empty() ? "" : " ") + (plain && !word.empty() ? word : "'" + word + "'");
    at = end + 1;
  }
  return text;
}

// `sequence`: 0, or the length in place of the model's own.
std::shared_ptr<const Model> load_model(const std::string& name, std::int64_t sequence = 0) {
  Diagnostics diagnostics;
  const Catalog catalog(data_directories());
  const auto path = catalog.resolve(DataKind::model, name, {}, diagnostics);
  diagnostics.throw_errors();
  const std::optional<Value> root = read_document(*path, diagnostics);
  const auto length = sequence > 0 ? std::optional(sequence) : std::nullopt;
  std::shared_ptr<const Model> model = root ? read_model(*root, diagnostics, length) : nullptr;
  diagnostics.throw_errors();
  if (!model->is_graph())
    throw Error(ErrorKind::input, path->string() + ": a mere list of parameters has no layers to time");
  if (sequence > 0 && model->sequence == 0)
    throw Error(ErrorKind::input, "--sequence: model '" + model->name + "' has no sequences");
  return model;
}

// The profile to extend; none where there is no such file yet.
std::optional<Profile> load_profile(const std::string& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  Diagnostics diagnostics;
  std::optional<Profile> profile = read_profile(file, diagnostics);
  diagnostics.throw_errors();
  return profile;
}

// Before anything is measured: that it can be joined to what is there.
void check_same_device(const Profile& known, device::Backend& backend, const std::string& file) {
  const std::string gpu = backend.machine().gpu;
  const std::string known_gpu = device_of(known);
  if (known.device != backend.name() || (!known.runs.empty() && !gpu.empty() && known_gpu != gpu))
    throw Error(
        ErrorKind::input,
        fmt::format(
            "{} was measured on {} ({}), this machine has {} ({}): a profile holds one GPU type; write "
            "to another file",
            file, known_gpu, known.device, gpu.empty() ? "no GPU" : gpu, backend.name()));
}

Profile joined(const std::optional<Profile>& known, const Profile& measured) {
  if (!known) return measured;
  Profile both = *known;
  merge_profile(both, measured);
  return both;
}

// What interference is worth in a step, by the steps and collectives of the whole profile. Returns what could
// not be told.
std::vector<std::string> fit(Profile& profile, const Options& options, const calibrate::Request& request) {
  const Catalog catalog(data_directories());
  return fit_overlaps(profile, [&](const std::string& model, int gpus, std::int64_t sequence) {
    const bool is_this = request.model && model == request.model->name;
    return scenario_of_model(catalog, is_this ? options.model : model, gpus, sequence);
  });
}

// Each rank on a thread of its own; the first is the one whose calibration counts. One that fails leaves its
// group, and so ends the others; what it failed by is what is told.
calibrate::Calibration calibrate_ranks(device::Backend& backend, const calibrate::Request& request,
                                       const calibrate::Hooks& hooks,
                                       const std::vector<calibrate::LaunchedRank>& ranks) {
  calibrate::Hooks silent;
  silent.stop = hooks.stop;
  std::vector<calibrate::Calibration> calibrations(ranks.size());
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        const auto group = calibrate::meet_over_tcp(ranks[i]);
        calibrations[i] = calibrate::calibrate_across_processes(backend, calibrate::steady_clock(), request,
                                                                i == 0 ? hooks : silent, *group, ranks[i]);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
  return std::move(calibrations.front());
}

int run(const Options& options) {
  if (options.model.empty() && !options.collectives) {
    throw Error(ErrorKind::input,
                "calibrate: say what to time: --model NAME with --batch, --collectives, or both");
  }
  calibrate::Request request;
  calibrate::read_request(options.batches, options.precisions, options.model.empty(), request);
  if (!options.model.empty()) request.model = load_model(options.model, options.sequence);
  for (const std::string& name : options.bucket_models) request.bucket_models.push_back(load_model(name));
  request.gpus = options.gpus;
  request.collectives = options.collectives;
  request.network = options.network;
  request.seconds = options.seconds;
  request.seed = options.seed;
  request.profile_name = data_name(options.out);
  request.command = command_text();
  const auto launched = calibrate::launched_rank(process_environment, options.rendezvous);
  if (launched && !options.checks.empty())
    throw Error(ErrorKind::input,
                "calibrate: --validate-parts is of a model's layers, which one process times; under " +
                    launched->launcher + " leave it out");
  if (!launched && !options.network.empty())
    throw Error(ErrorKind::input,
                "calibrate: --network names what joins nodes: start a process a GPU with srun, mpirun or "
                "torchrun, or one a node with NODE_RANK and NNODES");
  if (launched && options.network.empty())
    throw Error(ErrorKind::input, "calibrate: under " + launched->launcher +
                                      " say what joins the nodes, as in --network 'ethernet 10 Gbit/s tcp'");
  const bool writes = !launched || launched->rank == 0;
  std::optional<Profile> known;
  if (writes && options.append) known = load_profile(options.out);

  // Before a minute is spent: can the files be written? Nothing is, yet.
  if (writes) {
    const FileWriter profile(options.out);
    if (!options.checks.empty()) {
      const FileWriter checks(options.checks);
    }
  }
  // Where workers compute on the host's cores.
  ::setenv("FORETRAIN_THREADS", std::to_string(options.threads).c_str(), 1);
  device::Backend& backend = device::choose_backend(options.device);
  if (known) check_same_device(*known, backend, options.out);
  if (writes && options.device.empty() && backend.name() == "cpu")
    note("no GPU answers: the cpu backend is timed, on the cores of this machine");
  calibrate::Hooks hooks;
  hooks.stop = &interrupt_requested();
  if (writes) {
    hooks.progress = [](const std::string& text) { progress("calibrate: " + text); };
    hooks.finished = [&](const Profile& profile) { write_profile(joined(known, profile), options.out); };
  }
  calibrate::Calibration calibration;
  if (launched) {
    const int devices = options.gpus > 0 ? options.gpus : backend.device_count();
    calibration = calibrate_ranks(backend, request, hooks, calibrate::ranks_served(*launched, devices));
  } else {
    calibration = calibrate::calibrate(backend, calibrate::steady_clock(), request, hooks);
  }
  if (!writes) return 0;
  end_progress();
  if (Profile whole = joined(known, calibration.profile); !whole.overlaps.empty()) {
    for (const std::string& problem : fit(whole, options, request)) warning(problem);
    write_profile(whole, options.out);
  }
  const CalibrationRun& done = calibration.profile.runs.back();
  for (const std::string& text : done.warnings) warning(text);
  if (!options.checks.empty())
    write_file(options.checks, calibrate::checks_to_json(calibration.checks, done));
  const std::string table = calibrate::checks_to_text(calibration.checks);
  if (verbosity() != Verbosity::quiet) write_file("-", table);
  note(fmt::format("{}: {} operators, {} steps, {} collectives in {:.1f} s on {}{}", options.out,
                   calibration.profile.operators.size(), calibration.profile.steps.size(),
                   calibration.profile.collectives.size(), done.seconds, device_of(done.machine),
                   done.complete ? "" : "; interrupted, incomplete"));
  return 0;
}

}  // namespace

Action prepare_calibrate(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("--model", options->model, "the model whose layers are timed, a name or a file")
      ->type_name("NAME|FILE");
  command.add_option("--batch", options->batches, "samples a worker, as in 32,64,128")->type_name("N,...");
  command
      .add_option("--sequence", options->sequence,
                  "length of a sample of a model of sequences (default: its own)")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000'000));
  command.add_option("--precision", options->precisions, "fp32, tf32, bf16, fp16, or several (default fp32)")
      ->type_name("P,...");
  command.add_option("--gpus", options->gpus, "local devices to use (default: all)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--threads", options->threads,
                  "of each worker on the cpu backend, as a scenario's host.threads (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  command.add_option("--out", options->out, "the profile to write; compressed where the name ends in .gz")
      ->type_name("FILE")
      ->required();
  command.add_flag("--append", options->append, "extend the profile of --out by this run");
  command.add_flag("--collectives", options->collectives,
                   "time collectives too; without --model them alone, also under srun, mpirun or torchrun, "
                   "or by a process a node (where --model times what they and its passes cost each other)");
  command
      .add_option("--buckets-of", options->bucket_models,
                  "also time all-reduces of the sizes of these models' gradient buckets")
      ->type_name("MODEL,...")
      ->delimiter(',');
  command.add_option("--network", options->network, "what joins the nodes, as in 'ethernet 10 Gbit/s tcp'")
      ->type_name("TEXT");
  command.add_option("--rendezvous", options->rendezvous, "where the ranks of several processes meet")
      ->type_name("HOST:PORT");
  command.add_option("--seconds", options->seconds, "wall clock to spend at most (default: 6 s a batch)")
      ->type_name("S")
      ->check(CLI::Range(1.0, 86400.0));
  command
      .add_option("--validate-parts", options->checks,
                  "also write the sum of parts against whole steps measured in separate runs")
      ->type_name("FILE");
  command
      .add_option("--device", options->device,
                  "cuda, cpu or reference (default: cuda where a GPU answers, else cpu)")
      ->type_name("NAME");
  command.add_option("--seed", options->seed, "of weights and input (default 1)")->type_name("N");
  return [options] { return run(*options); };
}

}  // namespace foretrain::app
