#include "execute/run_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <thread>
#include <utility>

#include "execute/checkpoint_identity.hpp"
#include "execute/findings.hpp"
#include "execute/monitor.hpp"
#include "sim/input/sequence_lengths.hpp"

namespace foretrain {
namespace {

constexpr double meeting_limit = 120;  // seconds for all processes to come

std::string network_of(const Topology& topology) {
  if (topology.nodes > 1) return topology.network.name();
  if (topology.workers.size() < 2) return "";
  for (const Link& link : topology.links) return name_of(link.kind);
  return "";
}

// After an interruption ranks may be a step apart.
void trim_to_common_steps(std::vector<RankRecord>& ranks) {
  std::size_t common = std::numeric_limits<std::size_t>::max();
  for (const RankRecord& rank : ranks) common = std::min(common, rank.step.size());
  for (RankRecord& rank : ranks) {
    rank.step.resize(common);
    rank.step_host.resize(common);
    if (rank.useful_units.size() > common) rank.useful_units.resize(common);
    if (rank.padded_units.size() > common) rank.padded_units.resize(common);
    if (rank.loss.size() > common) rank.loss.resize(common);
  }
}

// A high rate may end in a loss that is no number: the run goes on, but its times are not those of training.
void note_divergence(RunRecord& record) {
  for (RankRecord& rank : record.ranks) {
    if (std::isfinite(rank.first_loss) && std::isfinite(rank.last_loss)) continue;
    if (!std::isfinite(rank.first_loss)) rank.first_loss = 0;
    if (!std::isfinite(rank.last_loss)) rank.last_loss = 0;
    const auto wrong =
        std::find_if_not(rank.loss.begin(), rank.loss.end(), [](double loss) { return std::isfinite(loss); });
    rank.loss.erase(wrong, rank.loss.end());
    record.findings.push_back(
        {0, "divergence", "",
         fmt::format(
             "the loss of rank {} is not a finite number: kernels draw less power on such numbers and may be "
             "faster than in training; lower the learning rate",
             rank.rank)});
  }
}

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// What the ranks measured in a further phase. Ranks that came later have fewer steps; buckets of another
// number are those of the last phase.
void append_ranks(std::vector<RankRecord>& to, std::vector<RankRecord> from) {
  for (RankRecord& rank : from) {
    const auto known =
        std::find_if(to.begin(), to.end(), [&](const RankRecord& other) { return other.rank == rank.rank; });
    if (known == to.end()) {
      to.push_back(std::move(rank));
      continue;
    }
    RankRecord joined = rank;
    for (auto member :
         {&RankRecord::step, &RankRecord::step_host, &RankRecord::forward, &RankRecord::backward,
          &RankRecord::exposed_communication, &RankRecord::optimizer, &RankRecord::warmup,
          &RankRecord::useful_units, &RankRecord::padded_units, &RankRecord::loss}) {
      joined.*member = (*known).*member;
      append(joined.*member, rank.*member);
    }
    if (known->buckets.size() == rank.buckets.size()) {
      joined.buckets = known->buckets;
      for (std::size_t b = 0; b < rank.buckets.size(); ++b) {
        append(joined.buckets[b].ready, rank.buckets[b].ready);
        append(joined.buckets[b].finished, rank.buckets[b].finished);
      }
    }
    joined.first_loss = known->first_loss;
    joined.peak_bytes = std::max(known->peak_bytes, rank.peak_bytes);
    *known = std::move(joined);
  }
}

// From the end of the phase before to the beginning of the first that has another shape.
void note_rescale(RunTimeline& timeline, std::int64_t updates, const PlannedUpdate& first) {
  double begin = 0, end = timeline.now();
  for (const RunEvent& event : timeline.events) {
    if (event.what != "phase") continue;
    if (event.step < updates) {
      begin = std::max(begin, event.end);
    } else {
      end = std::min(end, event.begin);
    }
  }
  timeline.events.push_back({"rescale", begin, end, updates, first.full_batch, first.workers, 0});
  std::stable_sort(timeline.events.begin(), timeline.events.end(),
                   [](const RunEvent& a, const RunEvent& b) { return a.begin < b.begin; });
}

// Of the ranks that trained to the end.
void check_replicas(const Scenario& scenario, RunRecord& record) {
  if (scenario.strategy.kind == StrategyKind::independent || record.ranks.empty()) return;
  int last = record.workers;
  for (const RunEvent& event : record.events) {
    if (event.what == "phase") last = event.workers;
  }
  for (const RankRecord& rank : record.ranks) {
    if (rank.rank >= last) continue;
    if (rank.checksum == record.ranks.front().checksum) continue;
    const std::string what = fmt::format("the weights of rank {} differ from those of rank {} after the run",
                                         rank.rank, record.ranks.front().rank);
    record.findings.push_back({0, "replicas differ", "", what});
    throw Error(ErrorKind::failure, what);
  }
}

bool has_several_servers(const Scenario& scenario) {
  return scenario.strategy.kind == StrategyKind::parameter_server &&
         std::min(scenario.strategy.servers, static_cast<int>(scenario.cluster.topology.workers.size())) > 1;
}

// A server keeps the optimizer's state of its own buckets, and one rank's state is what goes on.
void check_servers(const Scenario& scenario, const RunOptions& options, bool goes_on) {
  const bool keeps_state = scenario.optimizer.kind != OptimizerKind::sgd || scenario.optimizer.momentum != 0;
  if (!keeps_state || !has_several_servers(scenario) || (!goes_on && options.checkpoint.empty())) return;
  throw Error(ErrorKind::input,
              "run: several servers keep the optimizer's state in parts, which a checkpoint or a change of "
              "batch or workers would lose: take one server, or sgd without momentum");
}

}  // namespace

void describe(const Scenario& scenario, RunRecord& record) {
  record.source = "foretrain";
  record.scenario_name = scenario.name;
  record.model = scenario.model->name;
  record.precision = scenario.precision;
  record.strategy = name_of(scenario.strategy.kind);
  record.batch_per_worker = scenario.batch_per_worker;
  record.workers = static_cast<int>(scenario.cluster.topology.workers.size());
  record.nodes = scenario.cluster.topology.nodes;
  record.network = network_of(scenario.cluster.topology);
  record.line_rate = record.nodes > 1 ? scenario.cluster.topology.network.bandwidth.bytes_per_second() : 0;
  record.profile_names = scenario.profile_names;
  record.parameters.clear();
  for (const Parameter& parameter : scenario.model->parameters) {
    record.parameters.push_back({parameter.name, parameter.shape, "fp32"});
  }
}

RunSession::RunSession(device::Backend& backend, const LaunchEnvironment& launch,
                       const Environment& environment)
    : backend_(backend), launch_(launch), rendezvous_(choose_rendezvous(launch, environment)) {
  // NCCL reads its address from here, on every rank.
  if (rendezvous_.kind == Rendezvous::Kind::address) {
    ::setenv("NCCL_COMM_ID", rendezvous_.address.c_str(), 0);
  }
}

RunSession::~RunSession() = default;

LocalWorkers RunSession::local_workers(const Scenario& scenario) const {
  return assign_workers(launch_, scenario.cluster, backend_.device_count());
}

bool RunSession::is_first(const Scenario& scenario) const {
  return local_workers(scenario).first_rank == 0;
}

void RunSession::open_workers(const LocalWorkers& local) {
  // Opening a device takes a while: all at once.
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(local.devices.size());
  for (std::size_t i = 0; i < local.devices.size(); ++i) {
    Local& own = locals_[local.devices[i]];
    if (own.worker) continue;
    threads.emplace_back([this, &own, &errors, i, device = local.devices[i]] {
      try {
        own.worker = backend_.make_worker(device);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void RunSession::join(const LocalWorkers& local, const RunCallbacks& callbacks) {
  open_workers(local);
  if (local.world == 1 || locals_.at(local.devices[0]).communicators.contains(local.world)) return;
  static const std::atomic<bool> never{false};
  const std::atomic<bool>& stop = callbacks.stop != nullptr ? *callbacks.stop : never;
  device::CommunicatorId id;
  try {
    id = meet(rendezvous_, backend_, local.first_rank == 0, meetings_, meeting_limit, stop);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("rank {}: {}", local.first_rank, error.what()));
  }
  const int count = static_cast<int>(local.devices.size());
  std::vector<Local*> own;
  for (const int device : local.devices) own.push_back(&locals_.at(device));
  RunControl control(count);
  WatchdogOptions watchdog;
  watchdog.stop = callbacks.stop;
  watchdog.give_up = callbacks.give_up;
  const auto work = [&](int index) {
    control.set_stage(index, "joining the communicator", false);
    Local& mine = *own[static_cast<std::size_t>(index)];
    mine.communicators[local.world] = mine.worker->join(id, local.first_rank + index, local.world);
  };
  try {
    run_watched(control, count, local.first_rank, local.world, work, watchdog);
  } catch (...) {
    broken_ = true;
    throw;
  }
  clean(rendezvous_, local.first_rank == 0, meetings_++);
}

void RunSession::join_ahead(const Scenario& scenario, const JobPlan* job, const RunCallbacks& callbacks) {
  const LocalWorkers local = local_workers(scenario);
  if (job == nullptr || local.spans_processes) return join(local, callbacks);
  for (const int workers : job->begin.worker_counts()) {
    PlannedUpdate update = job->begin.next();
    update.workers = workers;
    join(local_workers(with_update(scenario, update)), callbacks);
  }
}

void RunSession::run(const Scenario& scenario, const RunOptions& options, const RunCallbacks& callbacks,
                     RunRecord& record) {
  if (!scenario.model || !scenario.model->is_graph()) {
    throw Error(ErrorKind::input, "a run needs a model with layers: a list of parameters cannot be trained");
  }
  if (has_several_servers(scenario) && scenario.optimizer.clip_norm > 0) {
    throw Error(
        ErrorKind::input,
        "run: each of several servers sees the gradients of its own parameters and cannot clip by the "
        "norm of all: take one server, or optimizer.clip_norm: 0");
  }
  // Not at once: to close devices takes a while, and a stopped run must write its record first.
  if (std::exchange(broken_, false)) locals_.clear();
  describe(scenario, record);
  record.machine = backend_.machine();
  record.warmup_steps = options.rank.length.warmup;
  record.phase_every = options.rank.phase_every;
  record.complete = false;
  record.resumed_after = 0;
  record.soak = options.rank.length.soak;
  if (options.rank.noise_every > 0 && !options.rank.data) {
    throw Error(
        ErrorKind::input,
        "the noise of gradients needs data: on the one random batch of --data synthetic there is none");
  }
  record.ranks.clear();
  RunTimeline timeline;
  RunOptions timed = options;
  timed.rank.timeline = &timeline;
  std::optional<Monitor> monitor;
  if (options.monitor > 0) {
    const LocalWorkers local = local_workers(scenario);
    monitor.emplace(backend_, local.devices, local.node, options.monitor, timeline.begin);
    timed.rank.watch_processes = [&](std::vector<int> processes) { monitor->watch(std::move(processes)); };
    if (options.monitor_cost) timed.rank.pause_monitor = [&](bool paused) { monitor->pause(paused); };
  }
  const auto conclude = [&] {
    record.events = std::move(timeline.events);
    if (scenario.lengths) record.sequences = sequences_of(record.ranks, name_of(scenario.lengths->batching));
    record.noise_looks = std::move(timeline.noise_looks);
    record.monitor_cost = timeline.monitor_cost;
    if (monitor) {
      record.monitor = monitor->stop(std::max(0.0, timeline.first_counted));
      const double end = timeline.last_counted < 0 ? timeline.now() : timeline.last_counted;
      record.clocks = clock_records(record.monitor, monitor->throttles(), end - timeline.first_counted);
    }
    for (const auto& found : {step_findings(record, timeline.late_batches, timeline.short_batches),
                              leak_findings(record.monitor)}) {
      record.findings.insert(record.findings.end(), found.begin(), found.end());
    }
  };
  try {
    record.complete =
        options.job ? run_job(scenario, timed, callbacks, record) : train(scenario, timed, callbacks, record);
  } catch (...) {
    conclude();
    broken_ = true;
    throw;
  }
  conclude();
  broken_ = !record.complete;
  if (broken_) return;
  check_replicas(scenario, record);
}

bool RunSession::run_job(const Scenario& scenario, RunOptions options, const RunCallbacks& callbacks,
                         RunRecord& record) {
  const JobPlan& plan = *options.job;
  const std::string identity = checkpoint_identity(backend_.name(), scenario, options.rank.seed);
  TrainingState state;
  bool has_state = false;
  if (options.resume && !options.checkpoint.empty()) {
    if (auto found = read_checkpoint(options.checkpoint, identity)) {
      state = std::move(*found);
      has_state = true;
      record.resumed_after = state.updates;
    }
  }
  JobWalk walk = plan.begin;
  if (has_state) walk.go_to(state.updates, state.losses);
  check_servers(scenario, options, has_state || walk.changes_shape());
  join_ahead(scenario, &plan, callbacks);
  bool is_first = true;
  while (!walk.is_finished()) {
    const PlannedUpdate first = walk.next();
    const Scenario part = with_update(scenario, first);
    if (part.cluster.topology.workers.size() != scenario.cluster.topology.workers.size() &&
        local_workers(scenario).spans_processes) {
      throw Error(ErrorKind::unavailable,
                  "a schedule whose workers grow runs in one process only: start it on one node, without a "
                  "launcher");
    }
    TrainingState after;
    JobWalk end = walk;
    RankJob job{&plan,   &walk, &end, is_first, has_state ? &state : nullptr, &after, options.checkpoint,
                identity};
    options.rank.job = &job;
    if (is_first) {
      record.batch_per_worker = part.batch_per_worker;
      record.workers = first.workers;
      record.nodes = part.cluster.topology.nodes;
    }
    if (!train(part, options, callbacks, record)) return false;
    if (!is_first) note_rescale(*options.rank.timeline, walk.updates(), first);
    walk = std::move(end);
    state = std::move(after);
    has_state = true;
    is_first = false;
  }
  return true;
}

bool RunSession::train(const Scenario& scenario, const RunOptions& options, const RunCallbacks& callbacks,
                       RunRecord& record) {
  const LocalWorkers local = local_workers(scenario);
  join(local, callbacks);
  const int count = static_cast<int>(local.devices.size());
  RunControl control(count);
  std::vector<RankRecord> own(static_cast<std::size_t>(count));
  std::vector<RankRecord> all;
  const auto work = [&](int index) {
    Local& mine = locals_.at(local.devices[static_cast<std::size_t>(index)]);
    RankRecord& rank_record = own[static_cast<std::size_t>(index)];
    rank_record.rank = local.first_rank + index;
    rank_record.host = node_name(process_environment);
    rank_record.gpu = record.machine.gpu;
    device::Communicator* communicator =
        local.world == 1 ? nullptr : mine.communicators.at(local.world).get();
    control.set_communicator(index, communicator);
    const RankPlace place{index, local.first_rank + index, local.world, local.node};
    auto gathered = run_rank(scenario, options.rank, place, *mine.worker, communicator, control, rank_record);
    if (index == 0) all = std::move(gathered);
  };
  WatchdogOptions watchdog;
  watchdog.limit = options.time_limit;
  watchdog.stop = callbacks.stop;
  watchdog.give_up = callbacks.give_up;
  if (callbacks.progress) {
    watchdog.tick = [&] {
      std::int64_t least = control.steps(0);
      for (int i = 1; i < count; ++i) least = std::min(least, control.steps(i));
      callbacks.progress(least);
    };
  }
  const auto keep = [&](std::vector<RankRecord> ranks) {
    append_ranks(record.ranks, std::move(ranks));
    note_divergence(record);
  };
  try {
    run_watched(control, count, local.first_rank, local.world, work, watchdog);
  } catch (...) {
    trim_to_common_steps(own);
    keep(std::move(own));
    throw;
  }
  const bool whole = !all.empty();
  if (!whole) trim_to_common_steps(own);
  keep(whole ? std::move(all) : std::move(own));
  return whole;
}

}  // namespace foretrain
