#include "execute/run_session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <thread>

namespace foretrain {
namespace {

constexpr double meeting_limit = 120;  // seconds for all processes to come

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// What tells two nodes apart; a node may be made of one machine by NCCL_HOSTID.
std::string node_name() {
  const char* id = std::getenv("NCCL_HOSTID");
  return id != nullptr && *id != '\0' ? id : host_name();
}

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
  }
}

// Random labels and a high rate may end in a loss that is no number, which is no failure of the measurement.
void note_divergence(RunRecord& record) {
  for (RankRecord& rank : record.ranks) {
    if (std::isfinite(rank.first_loss) && std::isfinite(rank.last_loss)) continue;
    if (!std::isfinite(rank.first_loss)) rank.first_loss = 0;
    if (!std::isfinite(rank.last_loss)) rank.last_loss = 0;
    record.findings.push_back(
        {0, "divergence", "", fmt::format("the loss of rank {} is not a finite number", rank.rank)});
  }
}

void check_replicas(const Scenario& scenario, const RunRecord& record) {
  if (scenario.strategy.kind == StrategyKind::independent || record.ranks.empty()) return;
  for (const RankRecord& rank : record.ranks) {
    if (rank.checksum == record.ranks.front().checksum) continue;
    throw Error(ErrorKind::failure,
                fmt::format("the weights of rank {} differ from those of rank {} after the run", rank.rank,
                            record.ranks.front().rank));
  }
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

device::Communicator* RunSession::communicator_of(Local& own, const LocalWorkers& local, int index,
                                                  const device::CommunicatorId& id) {
  if (local.world == 1) return nullptr;
  auto& communicator = own.communicators[local.world];
  if (!communicator) communicator = own.worker->join(id, local.first_rank + index, local.world);
  return communicator.get();
}

void RunSession::run(const Scenario& scenario, const RunOptions& options, const RunCallbacks& callbacks,
                     RunRecord& record) {
  if (!scenario.model || !scenario.model->is_graph()) {
    throw Error(ErrorKind::input, "a run needs a model with layers: a list of parameters cannot be trained");
  }
  const LocalWorkers local = local_workers(scenario);
  describe(scenario, record);
  record.machine = backend_.machine();
  record.warmup_steps = options.rank.length.warmup;
  record.phase_every = options.rank.phase_every;
  record.complete = false;
  try {
    open_workers(local);
    train(scenario, options, callbacks, local, record);
  } catch (...) {
    // Their communicators may be broken.
    locals_.clear();
    throw;
  }
  if (!record.complete) {
    locals_.clear();
    return;
  }
  check_replicas(scenario, record);
}

void RunSession::train(const Scenario& scenario, const RunOptions& options, const RunCallbacks& callbacks,
                       const LocalWorkers& local, RunRecord& record) {
  const int count = static_cast<int>(local.devices.size());
  RunControl control(count);
  std::vector<RankRecord> own(static_cast<std::size_t>(count));
  std::vector<RankRecord> all;
  device::CommunicatorId id;
  static const std::atomic<bool> never{false};
  const std::atomic<bool>& stop = callbacks.stop != nullptr ? *callbacks.stop : never;
  const bool joins = local.world > 1 && !locals_.at(local.devices[0]).communicators.contains(local.world);
  if (joins) {
    id = meet(rendezvous_, backend_, local.first_rank == 0, meetings_, meeting_limit, stop);
  }
  const auto work = [&](int index) {
    Local& mine = locals_.at(local.devices[static_cast<std::size_t>(index)]);
    RankRecord& rank_record = own[static_cast<std::size_t>(index)];
    rank_record.rank = local.first_rank + index;
    rank_record.host = node_name();
    rank_record.gpu = record.machine.gpu;
    control.set_stage(index, "joining the communicator", false);
    device::Communicator* communicator = communicator_of(mine, local, index, id);
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
  const auto keep_own = [&] {
    trim_to_common_steps(own);
    record.ranks = std::move(own);
    note_divergence(record);
  };
  try {
    run_watched(control, count, local.first_rank, local.world, work, watchdog);
  } catch (...) {
    keep_own();
    throw;
  }
  if (joins) clean(rendezvous_, local.first_rank == 0, meetings_++);
  if (all.empty()) return keep_own();
  record.ranks = std::move(all);
  note_divergence(record);
  record.complete = true;
}

}  // namespace foretrain
