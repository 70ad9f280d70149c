#include "execute/rank_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "execute/item_times.hpp"
#include "execute/rank_build.hpp"
#include "execute/rank_record_bytes.hpp"
#include "execute/rank_steps.hpp"
#include "execute/sized_programs.hpp"
#include "execute/unequal_data.hpp"
#include "sim/base/quantile.hpp"

namespace foretrain {
namespace {

constexpr int default_step_count = 100, least_steps = 12;
constexpr double default_seconds = 20;

// Steps until `seconds` are over, in blocks of which all ranks agree on the number; none of them is kept.
// False where the run was stopped.
bool soak(double seconds, Exchange& exchange, RankSteps& run, RankRecord& record) {
  constexpr int least_block = 4, most_block = 1000;
  constexpr double block_seconds = 0.5;  // between two looks at the time
  const std::size_t kept = record.warmup.size();
  const auto begin = std::chrono::steady_clock::now();
  int block = least_block;
  for (double passed = 0; passed < seconds;) {
    if (!run.warm_up(block)) return false;
    run.drain();
    const std::vector<double> steps(record.warmup.end() - block, record.warmup.end());
    const double step = exchange.greatest(median(steps));
    passed =
        exchange.greatest(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    const double next = std::min(block_seconds, seconds - passed) / std::max(step, 1e-9);
    block = static_cast<int>(std::clamp<double>(next, least_block, most_block));
    record.warmup.resize(kept);
  }
  return true;
}

// The first step alone, for the loss before training. False where the run was stopped.
bool warm_up(const RankOptions& options, device::Program& program, Exchange& exchange, RankSteps& run,
             RankRecord& record) {
  run.feed();
  if (!run.warm_up(1)) return false;
  run.drain();
  record.first_loss = program.loss();
  if (!soak(options.length.soak, exchange, run, record)) return false;
  if (!run.warm_up(std::max(0, options.length.warmup - 1))) return false;
  run.drain();
  return true;
}

std::vector<std::string> gather_texts(Exchange& exchange, const std::string& own) {
  std::vector<std::string> texts;
  for (const std::vector<std::byte>& bytes : exchange.all_gather(std::as_bytes(std::span(own))))
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return texts;
}

void see_peers(const RankPlace& place, const RankOptions& options, const std::string& host,
               Exchange& exchange, RunControl& control) {
  PeerProcesses peers(gather_texts(exchange, own_process()));
  const std::vector<std::string> hosts = gather_texts(exchange, host);
  if (place.local != 0) return;
  if (options.watch_processes) {
    std::vector<int> on_node;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts[rank] == host) on_node.push_back(static_cast<int>(rank));
    }
    options.watch_processes(peers.numbers_of(on_node));
  }
  control.set_peers(std::move(peers));
}

// Ranks that name the same host lie on one node; nodes are numbered in the order of their first rank.
int find_node(const Scenario& scenario, const RankPlace& place, Exchange& exchange, const std::string& host) {
  const std::vector<std::string> hosts = gather_texts(exchange, host);
  std::vector<std::string> nodes;
  int own = 0;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    auto found = std::find(nodes.begin(), nodes.end(), hosts[rank]);
    if (found == nodes.end()) found = nodes.insert(nodes.end(), hosts[rank]);
    if (static_cast<int>(rank) == place.rank) own = static_cast<int>(found - nodes.begin());
  }
  const int wanted = scenario.cluster.topology.nodes;
  if (place.node >= 0) return place.node;
  if (static_cast<int>(nodes.size()) != wanted) {
    throw Error(ErrorKind::unavailable,
                fmt::format("the scenario's cluster has {} nodes, but its {} ranks run on {}", wanted,
                            place.world, nodes.size()));
  }
  return own;
}

// Rows of unequal lengths are put together anew for each step, and need something to be cut from.
std::shared_ptr<const DataSource> rows_of(const Scenario& scenario, const RankOptions& options) {
  if (!scenario.lengths || options.data) return options.data;
  return make_learnable_data(*scenario.model, options.seed);
}

}  // namespace

int default_steps(double step_seconds) {
  if (!(step_seconds > 0)) return default_step_count;
  const double fitting = std::ceil(default_seconds / step_seconds);
  return static_cast<int>(std::clamp(fitting, double{least_steps}, double{default_step_count}));
}

std::vector<RankRecord> run_rank(const Scenario& scenario, const RankOptions& options, const RankPlace& place,
                                 device::Worker& worker, device::Communicator* communicator,
                                 RunControl& control, RankRecord& record) {
  control.set_stage(place.local, "meeting the other ranks");
  record.rank = place.rank;
  Exchange exchange(worker, communicator);
  see_peers(place, options, record.host, exchange, control);
  control.set_stage(place.local, "building the model", false);
  const auto program = build_program(scenario, options, worker);
  worker.reset_peak();  // of the steps, not of the search for plans
  // Weights are alike on all ranks, data are not.
  program->synthesize_input(options.seed + static_cast<std::uint64_t>(place.rank));

  control.set_stage(place.local, "meeting before the first step");
  record.node = find_node(scenario, place, exchange, record.host);
  control.set_stage(place.local, "training");
  const RankJob* job = options.job;
  std::optional<TrainingState> initial;
  if (job != nullptr && job->begins && job->start == nullptr) initial = take_state(worker, *program, 0);
  std::vector<double> item_end;
  if (needs_item_end(scenario.strategy, place.world)) {
    item_end = measure_item_ends(worker, *program, exchange, [&control] { control.check(); });
  }
  Trainer trainer(worker, *program, communicator, *scenario.model, scenario.strategy, place.rank, place.world,
                  item_end, scenario.execution.cuda_graph);
  for (const PlannedBucket& planned : trainer.buckets()) {
    BucketTiming timing;
    timing.bytes = planned.bucket.is_sparse()
                       ? planned.bucket.sparse_bytes(scenario.batch_per_worker).count() * place.world
                       : planned.bucket.bytes.count();
    timing.collective = name_of(planned.bucket.is_sparse() ? CollectiveKind::all_gather
                                : trainer.moves_weights()  ? CollectiveKind::reduce
                                                           : CollectiveKind::all_reduce);
    record.buckets.push_back(std::move(timing));
  }
  record.launches = trainer.launches();
  SizedPrograms programs(scenario, options, place, worker, communicator, item_end, *program, trainer);
  if (job != nullptr) {
    // Before the first step, to which building them would be counted.
    for (const std::int64_t share : job->begin->short_shares()) programs.of_share(share);
    programs.of_passes(job->plan->evaluation_batch);
    programs.of_passes(0);
  }
  const std::shared_ptr<const DataSource> rows = rows_of(scenario, options);
  std::optional<UnequalData> unequal;
  if (scenario.lengths) {
    if (scenario.strategy.fusion.embedding != EmbeddingGradient::dense) {
      throw Error(ErrorKind::input,
                  "run: rows of tables are gathered of equally many tokens on all ranks: take "
                  "embedding_gradient: dense, or sequences of one length");
    }
    control.set_stage(place.local, "building the model at other lengths", false);
    unequal.emplace(*rows, scenario, options.seed);
    for (const std::int64_t length : unequal->draws().possible_rows())
      programs.of_share(scenario.batch_per_worker, length);
    exchange.barrier();
    control.set_stage(place.local, "training");
  }
  worker.reset_peak();  // these were searched for as well
  RankSteps run(scenario, options, place, worker, *program, trainer, exchange, programs,
                unequal ? &*unequal : rows.get(), unequal ? &*unequal : nullptr, control, record);
  bool whole = true;
  if (job == nullptr || job->begins) {
    whole = warm_up(options, *program, exchange, run, record);
  } else {
    // What a new shape does once (connections, modules of kernels) belongs to the change, not to its phase.
    constexpr int enough = 2;
    whole = run.warm_up(enough);
    run.drain();
  }
  if (!whole) return {};
  if (job == nullptr) {
    int steps = options.length.steps.value_or(0);
    if (!options.length.steps) {
      const auto half = record.warmup.begin() + static_cast<std::ptrdiff_t>(record.warmup.size() / 2);
      steps = default_steps(exchange.greatest(median({half, record.warmup.end()})));
    } else {
      exchange.barrier();
    }
    whole = run.train(steps);
    record.checksum = program->checksum();
    if (whole && options.pause_monitor) {
      const double cost = run.monitor_cost();
      if (options.timeline != nullptr && place.local == 0) options.timeline->monitor_cost = cost;
    }
  } else {
    if (const TrainingState* start = job->start ? job->start : initial ? &*initial : nullptr) {
      put_state(*start, worker, *program);
    }
    JobWalk walk = *job->begin;
    run.feed(&walk);
    exchange.barrier();
    whole = run.train(*job, walk);
    if (whole && place.local == 0) {
      programs.of_passes(0);
      if (job->end_state != nullptr) *job->end_state = take_state(worker, *program, walk.updates());
      if (job->end != nullptr) *job->end = walk;
    }
  }
  record.last_loss = program->loss();
  if (job != nullptr || !whole) record.checksum = program->checksum();
  record.peak_bytes = static_cast<double>(worker.peak_bytes());
  if (!whole) return {};
  control.set_stage(place.local, "collecting the measurements");
  std::vector<RankRecord> all;
  for (const std::vector<std::byte>& bytes : exchange.all_gather(bytes_of(record))) {
    all.push_back(rank_record_of(bytes));
  }
  return all;
}

}  // namespace foretrain
