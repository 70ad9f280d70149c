#include "execute/rank_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <future>

#include "execute/batch_reader.hpp"
#include "execute/item_times.hpp"
#include "execute/noise_scale.hpp"
#include "execute/rank_build.hpp"
#include "execute/rank_record_bytes.hpp"
#include "execute/sized_programs.hpp"
#include "execute/step_meter.hpp"
#include "execute/unequal_data.hpp"
#include "sim/base/quantile.hpp"

namespace foretrain {
namespace {

constexpr int default_step_count = 100, least_steps = 12;
constexpr double default_seconds = 20;

class RankRun {
 public:
  RankRun(const Scenario& scenario, const RankOptions& options, const RankPlace& place,
          device::Worker& worker, device::Program& program, Trainer& trainer, Exchange& exchange,
          SizedPrograms& programs, const DataSource* data, const UnequalData* unequal, RunControl& control,
          RankRecord& record)
      : scenario_(scenario),
        options_(options),
        place_(place),
        worker_(worker),
        program_(program),
        exchange_(exchange),
        programs_(programs),
        data_(data),
        unequal_(unequal),
        control_(control),
        record_(record),
        meter_(
            worker, trainer, [&control] { control.check(); },
            [this](const StepTiming& timing) { keep(timing); }) {
    full_ = {&program, &trainer, scenario.batch_per_worker / scenario.strategy.accumulation};
    running_ = full_;
    batch_ = scenario.batch_per_worker * place.world;
  }

  // Batches from here on are those of updates 0, 1, ...; of a job's, from where it is.
  void feed(const JobWalk* job = nullptr) {
    reader_.reset();
    update_ = job == nullptr ? 0 : job->updates();
    if (data_ == nullptr) return;
    const int parts = scenario_.strategy.accumulation;
    const BatchPlace first{0, full_.batch, place_.rank * parts, place_.world * parts};
    if (job == nullptr) {
      reader_ = std::make_unique<BatchReader>(*data_, first, [parts, first](BatchPlace& at) {
        if (++at.index < first.index + parts) return;
        at.index = first.index;
        ++at.update;
      });
      return;
    }
    const auto place_at = [parts, first](const JobWalk& walk, BatchPlace& at) {
      at.index = first.index;
      at.update = walk.updates();
      if (walk.is_finished()) return;
      at.size = std::max<std::int64_t>(1, walk.next().share / parts);
      at.before = walk.position();
    };
    BatchPlace begin = first;
    place_at(*job, begin);
    reader_ = std::make_unique<BatchReader>(*data_, begin,
                                            [parts, first, place_at, walk = *job](BatchPlace& at) mutable {
                                              if (++at.index < first.index + parts) return;
                                              if (!walk.is_finished()) walk.advance();
                                              place_at(walk, at);
                                            });
  }

  // Uncounted steps. False where the run was stopped.
  bool warm_up(int steps) {
    meter_.restart();
    counts_ = false;
    return issue(steps);
  }
  void drain() { meter_.drain(); }

  // Counted ones, after one more that fills the device's queue again.
  bool train(int steps) {
    counts_ = false;
    if (unequal_ != nullptr) feed();  // of the draws that were predicted
    meter_.restart();
    if (!issue(1)) return false;
    uncounted_left_ = 1;
    begin_counting();
    const int block = options_.noise_every > 0 ? options_.noise_every : steps;
    bool whole = true;
    for (int done = 0; whole && done < steps;) {
      const int count = std::min(block, steps - done);
      whole = issue(count);
      done += count;
      if (!whole || options_.noise_every == 0 || count < block) continue;
      meter_.drain();
      look_at_noise(done);
      meter_.restart();
    }
    meter_.drain();
    end_counting();
    return whole;
  }

  // Steps with the monitor over steps without, less one. 0 where the run was stopped.
  double monitor_cost() {
    constexpr int blocks = 8, block_steps = 10;
    std::vector<double> with, without;
    for (int block = 0; block < blocks; ++block) {
      const bool paused = block % 2 == 0;
      if (place_.local == 0) options_.pause_monitor(paused);
      std::vector<double>& steps = paused ? without : with;
      const std::size_t before = record_.warmup.size();
      counts_ = false;
      meter_.restart();
      if (!issue(block_steps + 1)) return 0;
      meter_.drain();
      const auto first = record_.warmup.begin() + static_cast<std::ptrdiff_t>(before);
      steps.insert(steps.end(), first + 1, record_.warmup.end());
      record_.warmup.resize(before);
    }
    return median(with) / median(without) - 1;
  }

  // Updates of a job with what lies between them, as long as they have one shape; all of them count.
  bool train(const RankJob& job, JobWalk& walk) {
    const JobPlan& plan = *job.plan;
    const PlannedUpdate shape = walk.next();
    batch_ = shape.full_batch;
    meter_.restart();
    begin_counting();
    double begin = now();
    std::int64_t first = walk.updates();
    int phase = shape.phase;
    const auto end_phase = [&] {
      if (walk.updates() > first) note("phase", begin, first).phase = phase;
    };
    bool whole = true;
    while (whole && !walk.is_finished()) {
      PlannedUpdate update = walk.next();
      if (update.looks) {
        meter_.drain();
        walk.see_loss(look_at_loss(plan, walk.updates()));
        meter_.restart();
        update = walk.next();
      }
      if (!update.same_shape(shape)) break;
      if (update.phase != phase) {
        meter_.drain();
        end_phase();
        begin = now();
        first = walk.updates();
        phase = update.phase;
        batch_ = update.full_batch;
        meter_.restart();
      }
      whole = issue(update);
      if (!whole) break;
      const JobWalk::After after = walk.advance();
      const bool saves = after.saves && !job.checkpoint.empty();
      const bool looks = options_.noise_every > 0 && walk.updates() % options_.noise_every == 0;
      if (!after.evaluates && !saves && !looks) continue;
      meter_.drain();
      if (looks) look_at_noise(walk.updates());
      if (after.evaluates) evaluate(walk.updates());
      if (saves) save(job, walk);
      meter_.restart();
    }
    meter_.drain();
    await_last_write(walk.updates());
    end_counting();
    end_phase();
    return whole;
  }

 private:
  double now() const { return options_.timeline ? options_.timeline->now() : 0; }

  void begin_counting() {
    counts_ = true;
    if (keeps_time() && options_.timeline->first_counted < 0) {
      options_.timeline->first_counted = now();
      note("startup", 0, 0);
    }
  }

  void end_counting() {
    if (keeps_time()) options_.timeline->last_counted = now();
  }

  bool keeps_time() const { return options_.timeline != nullptr && place_.local == 0; }

  // What was noted, until the next note; of a rank that keeps no time, nothing of the record's.
  RunEvent& note(const char* what, double begin, std::int64_t updates, double bytes = 0) {
    RunEvent event{what, begin, now(), updates, batch_, place_.world, bytes};
    if (!keeps_time()) return unnoted_ = std::move(event);
    options_.timeline->events.push_back(std::move(event));
    return options_.timeline->events.back();
  }

  bool issue(std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i) {
      if (!issue_step()) return false;
    }
    return true;
  }

  bool issue(const PlannedUpdate& update) {
    running_ = programs_.of_share(update.share, row());
    running_.program->set_learning_rate(update.learning_rate);
    if (update.is_short() && keeps_time()) options_.timeline->short_batches.push_back(counted_issued_);
    return issue_step();
  }

  bool issue_step() {
    if (!control_.may_issue(step_)) return false;
    if (options_.before_step) options_.before_step(place_.rank, step_);
    if (unequal_ != nullptr) {
      // What a short update takes was chosen before.
      const std::int64_t parts = scenario_.strategy.accumulation;
      if (options_.job == nullptr || !counts_) running_ = programs_.of_share(full_.batch * parts, row());
      if (counts_) note_lengths(running_.batch * parts);
    }
    const bool phases = counts_ && counted_issued_ % options_.phase_every == 0;
    const StepMarks& marks = meter_.begin_step(phases);
    running_.trainer->issue_step(marks, [this](int) { next_batch(); });
    meter_.step_issued();
    if (counts_) ++counted_issued_;
    ++step_;
    ++update_;
    control_.progressed(place_.local);
    return true;
  }

  // Of the next update's rows; 0: all are as long as the model's sequence.
  std::int64_t row() const {
    return unequal_ != nullptr && reader_ ? unequal_->row(update_, place_.rank) : 0;
  }

  void note_lengths(std::int64_t rows) {
    record_.useful_units.push_back(unequal_->useful(update_, place_.rank, rows));
    record_.padded_units.push_back(unequal_->padded(update_, place_.rank, rows));
  }

  void next_batch() {
    if (!reader_) return;
    const std::int64_t waits = reader_->waits();
    reader_->take([this](const Batch& batch) { give(batch, *running_.program); });
    if (reader_->waits() > waits && counts_ && keeps_time()) {
      options_.timeline->late_batches.push_back(counted_issued_);
    }
  }

  // Over batches that training does not see; leaves no trace.
  void look_at_noise(std::int64_t updates) {
    constexpr int batches = 8;
    constexpr std::int64_t beyond = std::int64_t{1} << 30;
    control_.set_stage(place_.local, "looking at the noise of gradients");
    const double begin = now();
    programs_.of_passes(0);
    const TrainingState state = take_state(worker_, program_, updates);
    const std::int64_t size = scenario_.batch_per_worker / scenario_.strategy.accumulation;
    Batch batch;
    NoiseLook look = foretrain::look_at_noise(worker_, program_, *scenario_.model, size, batches, [&](int i) {
      control_.check();
      options_.data->fill({beyond + updates, size, place_.rank * batches + i, place_.world * batches}, batch);
      give(batch, program_);
      control_.progressed(place_.local);
    });
    put_state(state, worker_, program_);
    look.update = updates;
    look.gradient_squared = exchange_.mean(look.gradient_squared);
    look.trace = exchange_.mean(look.trace);
    if (keeps_time()) options_.timeline->noise_looks.push_back(look);
    note("noise scale", begin, updates);
    control_.set_stage(place_.local, "training");
  }

  // Forward passes over the input that lies on the device.
  void evaluate(std::int64_t updates) {
    const JobPlan& plan = *options_.job->plan;
    if (plan.evaluates_on_one && place_.rank != 0) return;
    control_.set_stage(place_.local, "evaluating");
    const double begin = now();
    const SizedPrograms::Sized sized = programs_.of_passes(plan.evaluation_batch);
    run_passes(worker_, *sized.program,
               passes_over(plan.evaluation_samples, sized.batch * (plan.evaluates_on_one ? 1 : place_.world)),
               [this] { go_on(); });
    note("evaluation", begin, updates);
    control_.set_stage(place_.local, "training");
  }

  // Of all ranks, over the data; the same on each.
  double look_at_loss(const JobPlan& plan, std::int64_t updates) {
    control_.set_stage(place_.local, "looking at the loss over the data");
    const double begin = now();
    const SizedPrograms::Sized sized = programs_.of_passes(0);
    const double own =
        mean_loss(worker_, *sized.program, options_.data.get(), place_, sized.batch,
                  passes_over(plan.loss_samples, sized.batch * place_.world), [this] { go_on(); });
    const double loss = exchange_.mean(own);
    if (!std::isfinite(loss)) {
      throw Error(
          ErrorKind::failure,
          fmt::format("the loss over the data is no finite number after {} updates, so that it gives no "
                      "batch; lower the learning rate",
                      updates));
    }
    note("adaptation", begin, updates).loss = loss;
    control_.set_stage(place_.local, "training");
    return loss;
  }

  static std::int64_t passes_over(std::int64_t samples, std::int64_t a_pass) {
    return (samples + a_pass - 1) / a_pass;
  }

  void go_on() {
    control_.check();
    control_.progressed(place_.local);
  }

  void save(const RankJob& job, const JobWalk& walk) {
    if (place_.rank != 0) return;
    const std::int64_t updates = walk.updates();
    control_.set_stage(place_.local, "writing a checkpoint", false);
    const double begin = now();
    finish_write();
    TrainingState state = take_state(worker_, program_, updates);
    state.losses = walk.losses();
    if (job.plan->writes_beside) {
      const auto bytes = static_cast<double>(state.weights.size() + state.state.size());
      writing_ = std::async(std::launch::async, [this, &job, state = std::move(state)] {
        const double write_begin = now();
        const std::int64_t written = write_checkpoint(job.checkpoint, job.identity, state);
        return Written{write_begin, now(), state.updates, static_cast<double>(written)};
      });
      note("checkpoint", begin, updates, bytes);
    } else {
      const std::int64_t bytes = write_checkpoint(job.checkpoint, job.identity, state);
      note("checkpoint", begin, updates, static_cast<double>(bytes));
    }
    control_.set_stage(place_.local, "training");
  }

  // The checkpoint that is being written beside training, where there is one. Throws where it cannot be.
  void finish_write() {
    if (!writing_.valid()) return;
    const Written written = writing_.get();
    note("checkpoint write", written.begin, written.updates, written.bytes).end = written.end;
  }

  // Before a phase ends: what training waits for then is a checkpoint's, without bytes of its own.
  void await_last_write(std::int64_t updates) {
    if (!writing_.valid()) return;
    control_.set_stage(place_.local, "writing a checkpoint", false);
    const double begin = now();
    finish_write();
    note("checkpoint", begin, updates);
  }

  struct Written {
    double begin = 0, end = 0;
    std::int64_t updates = 0;
    double bytes = 0;
  };

  void keep(const StepTiming& timing) {
    control_.finished_step(place_.local);
    if (!counts_ || uncounted_left_ > 0) {
      if (counts_) --uncounted_left_;
      record_.warmup.push_back(timing.step);
      return;
    }
    record_.step.push_back(timing.step);
    record_.step_host.push_back(timing.step_host);
    if (!timing.has_phases) return;
    record_.forward.push_back(timing.forward);
    record_.backward.push_back(timing.backward);
    record_.exposed_communication.push_back(timing.exposed_communication);
    record_.optimizer.push_back(timing.optimizer);
    for (std::size_t b = 0; b < record_.buckets.size(); ++b) {
      record_.buckets[b].ready.push_back(timing.ready[b]);
      record_.buckets[b].finished.push_back(timing.finished[b]);
    }
  }

  const Scenario& scenario_;
  const RankOptions& options_;
  const RankPlace& place_;
  device::Worker& worker_;
  device::Program& program_;
  Exchange& exchange_;
  SizedPrograms& programs_;
  const DataSource* data_;
  const UnequalData* unequal_;
  RunControl& control_;
  RankRecord& record_;
  std::unique_ptr<BatchReader> reader_;
  StepMeter meter_;
  SizedPrograms::Sized full_, running_;
  std::int64_t batch_ = 0;  // global
  RunEvent unnoted_;
  std::future<Written> writing_;  // of rank 0
  std::int64_t step_ = 0, counted_issued_ = 0;
  std::int64_t update_ = 0;  // that the next step makes, since the data began
  int uncounted_left_ = 0;
  bool counts_ = false;
};

// Steps until `seconds` are over, in blocks of which all ranks agree on the number; none of them is kept.
// False where the run was stopped.
bool soak(double seconds, Exchange& exchange, RankRun& run, RankRecord& record) {
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
bool warm_up(const RankOptions& options, device::Program& program, Exchange& exchange, RankRun& run,
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

void see_peers(const RankPlace& place, Exchange& exchange, RunControl& control) {
  PeerProcesses peers(gather_texts(exchange, own_process()));
  if (place.local == 0) control.set_peers(std::move(peers));
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
  see_peers(place, exchange, control);
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
  RankRun run(scenario, options, place, worker, *program, trainer, exchange, programs,
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
