#include "calibrate/several_devices.hpp"

#include <algorithm>

#include "calibrate/interference.hpp"
#include "calibrate/model_run.hpp"
#include "calibrate/statistics.hpp"
#include "execute/step_meter.hpp"
#include "execute/trainer.hpp"
#include "sim/training/buckets.hpp"

namespace foretrain::calibrate {
namespace {

constexpr double soak_share = 0.25;  // of the seconds of a batch

// What interference is measured with where gradients are larger: enough for a link's full rate.
constexpr std::int64_t largest_interfering = std::int64_t{64} << 20;
// A network's rate is tried with the one, and no collective beside a pass is shorter than the other.
constexpr std::int64_t probe_bytes = std::int64_t{256} << 10, least_probed = std::int64_t{64} << 10;
constexpr std::int64_t smallest_block = 16;  // bytes a rank

// Rank 0 by itself.
class Alone : public RankGroup {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  bool failed() override { return false; }
  std::vector<double> all_gather(double value) override { return {value}; }
  std::vector<std::byte> broadcast(std::vector<std::byte> from_rank_0) override { return from_rank_0; }
};

struct MeasuredSteps {
  TrainedSteps overlapped;
  std::vector<double> apart, one;  // without communication: of all ranks at once, of rank 0 while others rest
};

// A host's cores are not equally fast all the time, for other work on it or on what it is a part of: there
// the kinds of steps take turns, as many as there is time for, to and fro, so that each sees as much of it.
MeasuredSteps measure_steps(Session& session, RankGroup& group, device::Program& program,
                            device::Communicator& communicator, const InterferenceRequest& request) {
  const double step = std::max(1.5 * request.backward, 1e-4);
  const int kinds = request.shares_cores ? 3 : 2, fewest = 3;
  const double budget = (request.sizes.empty() ? 0.8 : 0.4) * request.seconds;
  const int turns = request.shares_cores ? repetitions_in(budget, kinds * fewest * step, 1, 3) : 1;
  const int steps = (repetitions_in(budget / kinds, step, fewest, 100) + turns - 1) / turns;
  const double soak = soak_share * request.seconds;
  const int warm_up = repetitions_in(soak / 2, step, 1, 10);
  MeasuredSteps measured;
  for (int turn = 0; turn < turns; ++turn) {
    const bool is_first = turn == 0;  // it also warms the devices up
    const auto trained = [&](RankGroup& ranks, device::Communicator* by, StrategyKind kind, double soaked) {
      return trained_steps(session, ranks, program, by, request.model, kind, steps, is_first ? soaked : 0,
                           is_first ? warm_up : 1);
    };
    const auto overlapped = [&] {
      TrainedSteps more = trained(group, &communicator, StrategyKind::ddp, soak);
      append(measured.overlapped.seconds, more.seconds);
      measured.overlapped.buckets = std::move(more.buckets);
    };
    const auto apart = [&] {
      append(measured.apart, trained(group, nullptr, StrategyKind::independent, soak / 2).seconds);
    };
    const auto one = [&] {
      if (!request.shares_cores) return;
      group.barrier();
      if (group.rank() == 0) {
        Alone alone;
        append(measured.one, trained(alone, nullptr, StrategyKind::independent, 0).seconds);
      }
      group.barrier();
    };
    if (turn % 2 == 0) {
      overlapped();
      apart();
      one();
    } else {
      one();
      apart();
      overlapped();
    }
  }
  return measured;
}

}  // namespace

std::int64_t interfering_bytes(const Model& model, int ranks) {
  const std::int64_t block = smallest_block * ranks;
  const std::int64_t bytes = model.parameter_count() * element_bytes(Precision::fp32);
  return std::min(largest_interfering, (bytes + block - 1) / block * block);
}

JoinedDevices::JoinedDevices(DeviceContext& context, int gpus)
    : clock_(context.clock), members_(static_cast<std::size_t>(gpus)) {
  const device::CommunicatorId id = context.backend.make_communicator_id();
  run_ranks(gpus, clock_, [&](RankGroup& group) {
    Member& mine = members_[static_cast<std::size_t>(group.rank())];
    mine.worker = context.backend.make_worker(group.rank());
    mine.communicator = mine.worker->join(id, group.rank(), group.ranks());
  });
}

// All at once: a rank that leaves a communicator waits for the others.
JoinedDevices::~JoinedDevices() {
  run_ranks(static_cast<int>(members_.size()), clock_, [&](RankGroup& group) {
    Member& mine = members_[static_cast<std::size_t>(group.rank())];
    mine.communicator.reset();
    mine.worker.reset();
  });
}

void measure_local_collectives(DeviceContext& context, int gpus, const std::string& network,
                               const CollectiveOptions& options, const SuiteHooks& hooks) {
  const std::vector<RankSubset> subsets = local_subsets(gpus, network);
  run_ranks(gpus, context.clock, [&](RankGroup& group) {
    const auto worker = context.backend.make_worker(group.rank());
    Session session{*worker, context.clock, context.stop, &group};
    measure_collectives(session, group, context.backend, subsets, options, group.rank() == 0, hooks);
  });
}

TrainedSteps trained_steps(Session& session, RankGroup& group, device::Program& program,
                           device::Communicator* communicator, const Model& model, StrategyKind kind,
                           int steps, double soak, int warm_up) {
  Strategy strategy;
  strategy.kind = kind;
  Trainer trainer(session.worker, program, communicator, model, strategy, group.rank(), group.ranks());
  TrainedSteps steps_of;
  for (const PlannedBucket& planned : trainer.buckets())
    steps_of.buckets.push_back(planned.bucket.bytes.count());
  std::vector<double>& times = steps_of.seconds;
  StepMeter meter(
      session.worker, trainer, [&] { session.check(); },
      [&](const StepTiming& timing) { times.push_back(timing.step); }, [&] { session.clock.rest(20e-6); });
  const auto issue = [&](int count) {
    for (int step = 0; step < count; ++step) {
      trainer.issue_step(meter.begin_step(false));
      meter.step_issued();
    }
  };
  // Under load, as a training is: a device at its power cap lowers its clock only after some tenths of a
  // second.
  const double soaked = session.clock.now() + soak;
  group.barrier();
  while (group.least(soaked - session.clock.now()) > 0) {
    meter.restart();
    times.clear();
    issue(warm_up);
    meter.drain();
    group.barrier();
  }
  meter.restart();
  times.clear();
  issue(warm_up + steps);
  meter.drain();
  if (communicator) communicator->check();
  program.set_gradient_scale(1);
  times.erase(times.begin(), times.begin() + warm_up);
  return steps_of;
}

std::vector<InterferenceEntry> interference_by_size(Session& session, RankGroup& group,
                                                    device::Communicator& communicator, StepPlan& plan,
                                                    const InterferenceRequest& request) {
  std::vector<InterferenceEntry> entries;
  std::vector<std::int64_t> sizes = request.sizes;
  const std::int64_t largest = interfering_bytes(request.model, group.ranks());
  if (request.part_of_backward > 0) sizes = {largest};
  if (sizes.empty()) return entries;
  device::Worker& worker = session.worker;
  const double start = session.clock.now();
  const device::Buffer buffer = worker.allocate(*std::max_element(sizes.begin(), sizes.end()));
  EventPool events(worker);
  const auto time = [&](std::int64_t bytes, int calls, bool first) {
    return std::max(
        time_chain(session, group, &communicator, events, buffer, CollectiveCurve(), bytes, calls, first),
        1e-6);
  };
  const double backward =
      request.backward > 0 ? request.backward : time_backward(session, group, communicator, plan);
  if (request.part_of_backward > 0) {
    // The second call, since the first makes connections.
    const std::int64_t probe = std::min(probe_bytes, largest), block = smallest_block * group.ranks();
    time(probe, 1, true);
    const double wanted = request.part_of_backward * backward / time(probe, 1, false);
    const auto bytes = static_cast<std::int64_t>(std::min(wanted, 1e6) * static_cast<double>(probe));
    sizes = {std::clamp(bytes / block * block, std::min(least_probed, largest), largest)};
  }
  for (const std::int64_t bytes : sizes) {
    InterferenceOptions options;
    options.bytes = bytes;
    options.backward = backward;
    const double first = time(bytes, 1, true);
    options.collective = time(bytes, repetitions_in(0.1 * request.seconds, first, 1, 10), false);
    const double left = group.least(request.seconds - (session.clock.now() - start));
    const double repetition = std::max(seconds_of_repetition(options), 1e-4);
    // Short ones are repeated five times at least; of long ones two are more than there is time for.
    const int least = group.greatest(repetition) > request.seconds / 5 ? 2 : 5;
    options.repetitions = repetitions_in(0.4 * left, repetition, least, 15);
    entries.push_back(measure_interference(session, group, communicator, buffer, plan, options));
    entries.back().model = request.model.name;
    entries.back().precision = request.precision;
    entries.back().batch = request.batch;
    entries.back().sequence = request.model.sequence;
  }
  worker.release(buffer);
  return entries;
}

InterferenceRun measure_interference_on(DeviceContext& context, JoinedDevices& devices,
                                        const InterferenceRequest& request) {
  InterferenceRun run;
  run_ranks(devices.count(), context.clock, [&](RankGroup& group) {
    device::Worker& worker = devices.worker(group.rank());
    device::Communicator& communicator = devices.communicator(group.rank());
    Session session{worker, context.clock, context.stop, &group};
    const auto program = worker.build(
        request.model, build_options(request.model, request.batch, request.precision, request.seed));
    program->synthesize_input(request.seed + static_cast<std::uint64_t>(group.rank()));
    StepPlan plan(*program);

    const double start = context.clock.now();
    const MeasuredSteps steps = measure_steps(session, group, *program, communicator, request);
    Sample alone = summarize(steps.apart);
    for (double Sample::*bound : {&Sample::low, &Sample::median, &Sample::high})
      alone.*bound = group.greatest(alone.*bound);

    InterferenceRequest ask = request;
    ask.seconds = group.least(std::max(0.0, request.seconds - (context.clock.now() - start)));
    std::vector<InterferenceEntry> entries = interference_by_size(session, group, communicator, plan, ask);
    if (group.rank() != 0) return;
    run.entries = std::move(entries);
    run.overlap.model = request.model.name;
    run.overlap.precision = request.precision;
    run.overlap.batch = request.batch;
    run.overlap.sequence = request.model.sequence;
    run.overlap.ranks = devices.count();
    run.overlap.step = summarize(steps.overlapped.seconds);
    run.overlap.alone = alone;
    if (!steps.one.empty()) run.overlap.one = summarize(steps.one);
    std::vector<double> ascending = steps.overlapped.seconds;
    std::sort(ascending.begin(), ascending.end());
    run.overlap.p05 = quantile(ascending, 0.05);
    run.overlap.p95 = quantile(ascending, 0.95);
    run.overlap.buckets = steps.overlapped.buckets;
    run.overlap.connected_first = true;  // as JoinedDevices are
  });
  return run;
}

}  // namespace foretrain::calibrate
