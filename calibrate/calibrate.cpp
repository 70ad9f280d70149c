#include "calibrate/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "calibrate/collective_suite.hpp"
#include "calibrate/copies.hpp"
#include "calibrate/host_facts.hpp"
#include "calibrate/launch_costs.hpp"
#include "calibrate/model_run.hpp"
#include "calibrate/several_devices.hpp"
#include "calibrate/statistics.hpp"
#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/base/utc.hpp"
#include "sim/training/buckets.hpp"

namespace foretrain::calibrate {
namespace {

// Where workers are the host's cores, collectives are measured up to here: their memory is the host's.
constexpr std::int64_t largest_on_host = std::int64_t{64} << 20;

constexpr double short_beside_a_pass = 1.0 / 6;
constexpr double seconds_of_launch_costs = 1.0, seconds_of_copies = 1.0, seconds_of_peer_copies = 0.3,
                 seconds_of_interference = 12.0, seconds_a_batch = 6.0;

double seconds_of_collectives(int gpus) {
  return gpus < 2 ? 0 : 8.0 + gpus;
}

int gpus_to_use(device::Backend& backend, int wanted) {
  const int count = backend.device_count();
  if (count == 0) throw Error(ErrorKind::unavailable, "the backend " + backend.name() + " finds no device");
  if (wanted > count)
    throw Error(ErrorKind::unavailable, fmt::format("{} devices asked for, {} found", wanted, count));
  return wanted > 0 ? wanted : count;
}

// One run in the making.
class Run {
 public:
  Run(device::Backend& backend, Clock& clock, const Request& request, const Hooks& hooks)
      : backend_(backend), clock_(clock), hooks_(hooks), start_(clock.now()) {
    Profile& profile = result_.profile;
    profile.name = request.profile_name;
    profile.device = backend.name();
    CalibrationRun run;
    run.date = utc_now();
    run.command = request.command;
    run.foretrain = FORETRAIN_VERSION;
    run.machine = backend.machine();
    add_host_facts(run.machine);
    profile.runs.push_back(std::move(run));
    note_clocks(true);
  }

  CalibrationRun& run() { return result_.profile.runs.back(); }
  Profile& profile() { return result_.profile; }
  std::vector<CheckRow>& checks() { return result_.checks; }
  double spent() { return clock_.now() - start_; }
  void progress(const std::string& text) {
    if (hooks_.progress) hooks_.progress(text);
  }
  void warn(const std::string& text) {
    if (std::find(run().warnings.begin(), run().warnings.end(), text) == run().warnings.end())
      run().warnings.push_back(text);
  }

  void note_clocks(bool before) {
    const device::Clocks clocks = backend_.clocks(0);
    Machine& machine = run().machine;
    machine.clock_max_hz = clocks.sm_max_hz;
    (before ? machine.clock_before_hz : machine.clock_after_hz) = clocks.sm_hz;
    (before ? machine.temperature_before : machine.temperature_after) = clocks.temperature;
  }

  void note_throttling(bool throttled, const std::string& reason, const std::string& during) {
    if (!throttled) return;
    run().machine.throttled = true;
    run().machine.throttle_reason = reason;
    warn("the device was throttled (" + reason + ") during " + during);
  }

  void keep_noise(NoiseEntry entry, const std::string& model, Precision precision, std::int64_t batch) {
    entry.model = model;
    entry.precision = precision;
    entry.batch = batch;
    for (NoiseEntry& known : profile().noise) {
      if (known.what != entry.what || known.model != model || known.precision != precision ||
          known.batch != batch)
        continue;
      known = entry;
      return;
    }
    profile().noise.push_back(std::move(entry));
  }

  // What is finished is whole: it may be saved.
  void save(bool complete) {
    run().complete = complete;
    run().seconds = spent();
    if (hooks_.finished) hooks_.finished(profile());
  }

  Calibration take() { return std::move(result_); }

 private:
  device::Backend& backend_;
  Clock& clock_;
  const Hooks& hooks_;
  double start_;
  Calibration result_;
};

// The better known of two measurements of the same update at different batches.
void keep_optimizer(std::vector<OptimizerEntry>& entries, const OptimizerEntry& entry) {
  if (entry.update.launches <= 0) return;
  for (OptimizerEntry& known : entries) {
    if (known.kind != entry.kind || known.model != entry.model || known.precision != entry.precision)
      continue;
    if (relative_error(entry.update.device) < relative_error(known.update.device)) known = entry;
    return;
  }
  entries.push_back(entry);
}

// Sizes of DistributedDataParallel's buckets of the models that are asked about.
std::vector<std::int64_t> bucket_sizes(const Request& request) {
  std::vector<std::shared_ptr<const Model>> models = request.bucket_models;
  if (request.model) models.push_back(request.model);
  std::vector<std::int64_t> sizes;
  for (const auto& model : models) {
    for (const Bucket& bucket : ddp_buckets(*model, Bytes(1 << 20), Bytes(25 << 20), Precision::fp32))
      sizes.push_back(bucket.bytes.count());
  }
  return sizes;
}

struct Backwards {
  std::int64_t batch = 0;
  Precision precision = Precision::fp32;
  double seconds = 0;
};

// Models on device 0, each batch and precision; returns the backward passes' times.
std::vector<Backwards> measure_models(Run& run, device::Backend& backend, Clock& clock,
                                      const Request& request, const Hooks& hooks, double seconds) {
  std::vector<Backwards> backwards;
  std::vector<double> device_deviations, host_deviations;
  const auto worker = backend.make_worker(0);
  Session session{*worker, clock, hooks.stop};
  run.progress("launch costs");
  const LaunchCosts costs = measure_launch_costs(session);
  run.profile().launches.push_back(costs);
  run.progress("copies");
  {
    // By a worker of their own, whose buffers count in no model's memory.
    const auto copier = backend.make_worker(0);
    Session copying{*copier, clock, hooks.stop};
    run.profile().copies = measure_copies(copying, seconds_of_copies);
  }
  run.save(false);

  const std::size_t count = request.batches.size() * request.precisions.size();
  std::size_t done = 0;
  std::optional<Error> refused;
  for (const Precision precision : request.precisions) {
    for (const std::int64_t batch : request.batches) {
      const std::string what =
          fmt::format("{} {} batch {}", request.model->name, foretrain::name_of(precision), batch);
      run.progress(fmt::format("{} ({} of {})", what, done + 1, count));
      ModelRunOptions options;
      options.batch = batch;
      options.precision = precision;
      options.seed = request.seed;
      options.event_gap = costs.event_gap.median;
      options.seconds = std::max(1.0, (seconds - run.spent()) / static_cast<double>(count - done));
      options.least_soak = done == 0 ? 1.0 : 0.3;
      ++done;
      std::optional<ModelRun> measured;
      try {
        measured = measure_model(session, backend, 0, *request.model, options);
      } catch (const Error& error) {
        const bool too_large = std::string_view(error.what()).find("out of memory") != std::string_view::npos;
        if (error.kind() != ErrorKind::unavailable && !too_large) throw;
        run.warn(what + " was left out: " + error.what());
        refused = error;
        continue;
      }
      append(run.profile().operators, measured->operators);
      append(run.profile().step_work, measured->step_work);
      run.profile().steps.push_back(measured->step);
      keep_optimizer(run.profile().optimizers, measured->optimizer);
      run.checks().push_back(measured->check);
      for (const std::string& warning : measured->warnings) run.warn(warning);
      run.note_throttling(measured->throttled, measured->throttle_reason, what);
      append(device_deviations, measured->device_deviations);
      append(host_deviations, measured->host_deviations);
      for (const bool is_host : {false, true}) {
        const char* which = is_host ? "host" : "device";
        // Of this batch, and of all so far under no model's name.
        run.keep_noise(noise_of(which, is_host ? measured->host_deviations : measured->device_deviations),
                       request.model->name, precision, batch);
        run.keep_noise(noise_of(which, is_host ? host_deviations : device_deviations), "", Precision::fp32,
                       0);
      }
      backwards.push_back({batch, precision, measured->backward});
      run.note_clocks(false);
      run.save(false);
    }
  }
  if (backwards.empty() && refused) throw *refused;
  return backwards;
}

// Gloo has one algorithm a kind, and sums no bf16.
void keep_to_gloo(CollectiveOptions& options) {
  options.forced = options.bf16 = false;
  options.skips_long = true;
  options.refinements = 0;
  options.most_bytes = std::min(options.most_bytes, largest_on_host);
  for (const std::int64_t bytes : options.more_bytes)
    options.most_bytes = std::max(options.most_bytes, bytes);
}

// At the middle batch interference by size; there and at the smallest and largest batch whole data-parallel
// steps, which tell what it is worth. `seconds` are those of all.
void measure_interferences(Run& run, DeviceContext& context, JoinedDevices& devices, const Request& request,
                           const std::vector<Backwards>& backwards, double seconds) {
  const double each = seconds / static_cast<double>(request.precisions.size());
  for (const Precision precision : request.precisions) {
    std::vector<Backwards> known;
    for (const Backwards& entry : backwards)
      if (entry.precision == precision) known.push_back(entry);
    if (known.empty()) continue;
    std::sort(known.begin(), known.end(), [](const auto& a, const auto& b) { return a.batch < b.batch; });
    const std::size_t middle = known.size() / 2;
    std::vector<std::size_t> places{middle, 0, known.size() - 1};
    if (known.size() < 3) places.resize(known.size());
    for (const std::size_t place : places) {
      const Backwards& at = known[place];
      run.progress(fmt::format("{}: {} {} batch {}", place == middle ? "interference" : "overlap",
                               request.model->name, foretrain::name_of(precision), at.batch));
      InterferenceRequest ask{.model = *request.model,
                              .batch = at.batch,
                              .precision = precision,
                              .seed = request.seed,
                              .backward = at.seconds,
                              .sizes = {},
                              .seconds = each / 4,
                              .shares_cores = context.backend.name() == "cpu"};
      if (place == middle) {
        ask.seconds = each / 2;
        ask.sizes = {interfering_bytes(*request.model, devices.count())};
      }
      const InterferenceRun measured = measure_interference_on(context, devices, ask);
      append(run.profile().interference, measured.entries);
      run.profile().overlaps.push_back(measured.overlap);
      run.save(false);
    }
  }
}

// What passes at the middle batch and collectives over what joins the nodes cost each other. Gradients can
// take many passes there: the collectives are of a size that several end within one.
void measure_interferences_across(Run& run, device::Backend& backend, Session& session, RankGroup& group,
                                  const Placement& placement, const Request& request, double seconds) {
  device::CommunicatorId id;
  if (group.rank() == 0) id = backend.make_communicator_id();
  id.bytes = group.broadcast(std::move(id.bytes));
  // Joined before the device works, as in a training.
  const auto communicator = session.worker.join(id, group.rank(), group.ranks());
  std::vector<std::int64_t> batches = request.batches;
  std::sort(batches.begin(), batches.end());
  const std::int64_t batch = batches[batches.size() / 2];
  for (const Precision precision : request.precisions) {
    run.progress(fmt::format("interference over {}: {} {} batch {}", request.network, request.model->name,
                             foretrain::name_of(precision), batch));
    const auto program =
        session.worker.build(*request.model, build_options(*request.model, batch, precision, request.seed));
    program->synthesize_input(request.seed + static_cast<std::uint64_t>(group.rank()));
    StepPlan plan(*program);
    const InterferenceRequest ask{.model = *request.model,
                                  .batch = batch,
                                  .precision = precision,
                                  .seed = request.seed,
                                  .sizes = {},
                                  .part_of_backward = short_beside_a_pass,
                                  .seconds = seconds / static_cast<double>(request.precisions.size())};
    for (InterferenceEntry& entry : interference_by_size(session, group, *communicator, plan, ask)) {
      entry.nodes = placement.nodes;
      entry.network = placement.network;
      entry.line_rate = placement.line_rate;
      run.profile().interference.push_back(std::move(entry));
    }
    run.save(false);
  }
}

}  // namespace

double default_seconds(const Request& request, int gpus) {
  const double models =
      request.model
          ? seconds_a_batch * static_cast<double>(request.batches.size() * request.precisions.size())
          : 0;
  const double interference = request.model && gpus > 1
                                  ? seconds_of_interference * static_cast<double>(request.precisions.size())
                                  : 0;
  return seconds_of_launch_costs + seconds_of_copies + models + interference +
         (request.collectives ? seconds_of_collectives(gpus) : 0);
}

Calibration calibrate(device::Backend& backend, Clock& clock, const Request& request, const Hooks& hooks) {
  const int gpus = gpus_to_use(backend, request.gpus);
  Run run(backend, clock, request, hooks);
  const double budget = request.seconds > 0 ? request.seconds : default_seconds(request, gpus);
  const bool collectives = request.collectives && gpus > 1;
  if (request.collectives && gpus < 2)
    throw Error(ErrorKind::unavailable, "collectives need two devices, and there is one");
  const double for_collectives = collectives ? std::min(seconds_of_collectives(gpus), 0.4 * budget) : 0;
  const double for_interference =
      request.model && gpus > 1 ? seconds_of_interference * static_cast<double>(request.precisions.size()) *
                                      std::min(1.0, budget / default_seconds(request, gpus))
                                : 0;
  DeviceContext context{backend, clock, hooks.stop};
  if (collectives) backend.log_choices();
  std::optional<JoinedDevices> joined;
  if (gpus > 1 && request.model) joined.emplace(context, gpus);
  try {
    std::vector<Backwards> backwards;
    if (request.model)
      backwards =
          measure_models(run, backend, clock, request, hooks, budget - for_collectives - for_interference);
    if (joined) {
      // What models took too long is missing here.
      const double left = std::max(budget - for_collectives - run.spent(), 0.2 * for_interference);
      measure_interferences(run, context, *joined, request, backwards, std::min(for_interference, left));
    }
    joined.reset();
    if (collectives) {
      CollectiveOptions options;
      options.most_bytes = request.largest_collective;
      options.more_bytes = bucket_sizes(request);
      options.seconds = request.model ? for_collectives : budget - run.spent();
      if (backend.name() == "cpu") keep_to_gloo(options);
      const double memory = run.run().machine.memory_bytes;
      while (memory > 0 && static_cast<double>(options.most_bytes) * 4 > memory) options.most_bytes /= 2;
      const SuiteHooks suite{
          [&](const std::string& text) { run.progress("collectives, " + text); },
          [&](const std::string& text) { run.warn(text); },
          [&](const std::vector<CollectiveEntry>& entries) { append(run.profile().collectives, entries); }};
      measure_local_collectives(context, gpus, network_of_link(run.run().machine.link), options, suite);
    }
    if (gpus > 1 && request.model) {
      const auto worker = backend.make_worker(0);
      Session session{*worker, clock, hooks.stop};
      append(run.profile().copies, measure_peer_copies(session, 1, seconds_of_peer_copies));
    }
    run.note_clocks(false);
    run.save(true);
  } catch (const Interrupted&) {
    run.save(false);
  }
  return run.take();
}

Calibration calibrate_across_processes(device::Backend& backend, Clock& clock, const Request& request,
                                       const Hooks& hooks, RankGroup& group, const LaunchedRank& launched) {
  const int devices = backend.device_count();
  // A rank without a device must tell the others.
  if (group.least(devices) < 1)
    throw Error(ErrorKind::unavailable,
                "the backend " + backend.name() + " finds no device on one of the nodes");
  Run run(backend, clock, request, hooks);
  // Equal names of hosts are one node; NCCL_HOSTID, where set, takes the name's place as it does in NCCL.
  const std::vector<double> ids = group.all_gather(host_id(process_environment));
  std::vector<int> nodes;
  for (const double id : ids)
    nodes.push_back(static_cast<int>(std::find(ids.begin(), ids.end(), id) - ids.begin()));
  if (request.collectives) backend.log_choices();
  const auto named = rate_named_in(request.network);
  const double line_rate = named ? named->bytes_per_second() : 0;
  std::vector<RankSubset> subsets = node_subsets(nodes, request.network, line_rate);
  if (!subsets.empty() && !named)
    throw Error(ErrorKind::input, "calibrate: --network '" + request.network +
                                      "' names no rate: write it as in 'ethernet 10 Gbit/s tcp'");
  if (subsets.empty()) subsets = local_subsets(group.ranks(), network_of_link(run.run().machine.link));
  try {
    const auto worker = backend.make_worker(launched.local_rank % devices);
    Session session{*worker, clock, hooks.stop, &group};
    const double for_interference =
        request.model ? seconds_of_interference * static_cast<double>(request.precisions.size()) : 0;
    const double for_collectives = request.collectives ? 60.0 * static_cast<double>(subsets.size()) : 0;
    const double budget =
        group.least(request.seconds > 0 ? request.seconds : for_interference + for_collectives);
    if (request.model)
      measure_interferences_across(run, backend, session, group, subsets.front().placement, request,
                                   budget * for_interference / (for_interference + for_collectives));
    if (request.collectives) {
      CollectiveOptions options;
      options.more_bytes = bucket_sizes(request);
      options.seconds = group.least(budget - run.spent());
      if (backend.name() == "cpu") keep_to_gloo(options);
      const double memory = group.least(run.run().machine.memory_bytes);
      while (memory > 0 && static_cast<double>(options.most_bytes) * 4 > memory) options.most_bytes /= 2;
      const SuiteHooks suite{[&](const std::string& text) { run.progress("collectives, " + text); },
                             [&](const std::string& text) { run.warn(text); },
                             [&](const std::vector<CollectiveEntry>& entries) {
                               append(run.profile().collectives, entries);
                               run.save(false);
                             }};
      measure_collectives(session, group, backend, subsets, options, true, suite);
    }
    run.note_clocks(false);
    run.save(true);
  } catch (const Interrupted&) {
    run.save(false);
  }
  return run.take();
}

}  // namespace foretrain::calibrate
