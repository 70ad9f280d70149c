// Jobs of several phases, checkpoints and resumed runs, on the reference backend.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "device/reference/backend.hpp"
#include "execute/measured_job.hpp"
#include "execute/run_session.hpp"
#include "sim/input/job.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/fake_backend.hpp"
#include "tests/support/models.hpp"
#include "tests/support/scenarios.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

Interval updates(double amount) {
  return {Interval::Unit::updates, amount};
}

// 6 updates of 4 samples on one worker, 4 of 8 on two, 5 of 12 on three, saved after every fourth.
struct JobRunner {
  Scenario scenario = test::made_scenario(test::tiny_cnn(), StrategyKind::ddp, 3, 4);
  std::shared_ptr<Job> job = std::make_shared<Job>();
  std::unique_ptr<device::Backend> backend = device::reference::make_backend();
  RunSession session{*backend, LaunchEnvironment{}, [](const char*) -> const char* { return nullptr; }};
  RunOptions options;

  JobRunner() {
    options.rank.length.warmup = 2;
    options.rank.data = make_learnable_data(*scenario.model, 5);
    job->epochs = 1;
    job->schedule.emplace();
    job->schedule->phases = {
        {updates(0), 4, 1, 0.05, 1}, {updates(6), 8, 2, 0.05, 1}, {updates(10), 12, 3, 0.1, 1}};
    job->checkpoint = Checkpoint{updates(4), Rate(1e9), {}};
    scenario.dataset_samples = 6 * 4 + 4 * 8 + 5 * 12;
    scenario.job = job;
  }
  RunRecord run() {
    options.job = job_plan(scenario);
    RunRecord record;
    session.run(scenario, options, {}, record);
    return record;
  }
};

int count(const RunRecord& record, const std::string& what) {
  int count = 0;
  for (const RunEvent& event : record.events) count += event.what == what;
  return count;
}

}  // namespace

TEST_CASE("a schedule's phases run one after another while workers join") {
  JobRunner job;
  job.job->evaluate = Evaluation{updates(5), 20};
  const RunRecord record = job.run();
  CHECK(record.complete);
  REQUIRE(record.ranks.size() == 3);
  CHECK(record.ranks[0].step.size() == 15);
  CHECK(record.ranks[1].step.size() == 9);
  CHECK(record.ranks[2].step.size() == 5);
  CHECK(record.ranks[2].checksum == record.ranks[0].checksum);
  CHECK(record.ranks[0].last_loss < record.ranks[0].first_loss);
  CHECK(count(record, "phase") == 3);
  CHECK(count(record, "rescale") == 2);
  CHECK(count(record, "evaluation") == 3);
  CHECK(count(record, "startup") == 1);
  CHECK(count(record, "checkpoint") == 0);  // no file is named
  for (const RunEvent& event : record.events) {
    CHECK(event.end >= event.begin);
    if (event.what == "phase" && event.workers == 2) {
      CHECK(event.step == 6);
      CHECK(event.batch == 8);
    }
  }
}

TEST_CASE("communicators of all phases are made before the first phase works") {
  test::FakeClock clock;
  test::FakeScript script;
  script.devices = 3;
  script.item = test::plain_timing;
  script.collective = [](CollectiveKind, std::int64_t, int, const std::string&, const std::string&) {
    return test::FakeChoice{"", 20e-6};
  };
  std::mutex mutex;
  std::vector<std::string> calls;
  script.before = [&](const std::string& call, int) {
    const std::scoped_lock lock(mutex);
    if (call == "join" || call == "build") calls.push_back(call);
  };
  test::FakeBackend backend(script, clock);
  JobRunner job;
  job.options.rank.data.reset();
  job.options.monitor = 0;
  RunSession session(backend, LaunchEnvironment{}, [](const char*) -> const char* { return nullptr; });
  RunRecord record;
  job.options.job = job_plan(job.scenario);
  // The fake has no weights that the first phase could hand on.
  CHECK_THROWS_WITH_AS(session.run(job.scenario, job.options, {}, record), doctest::Contains("no weights"),
                       Error);
  REQUIRE(calls.size() == 5 + 1);  // two and three ranks join, one builds
  for (std::size_t i = 0; i < calls.size(); ++i) CHECK(calls[i] == (i < 5 ? "join" : "build"));
}

TEST_CASE("a killed run resumes from its last whole checkpoint and gives the same weights") {
  const test::TemporaryFolder folder;
  JobRunner unbroken;
  const RunRecord whole = unbroken.run();

  JobRunner broken;
  broken.options.checkpoint = folder.path("state");
  broken.options.rank.before_step = [](int rank, std::int64_t step) {
    // The third step of the second phase after its two uncounted ones: update 8 is done and saved.
    if (rank == 1 && step == 5) throw std::runtime_error("killed");
  };
  RunRecord record;
  broken.options.job = job_plan(broken.scenario);
  CHECK_THROWS_AS(broken.session.run(broken.scenario, broken.options, {}, record), Error);
  CHECK(count(record, "checkpoint") == 2);  // after updates 4 and 8
  CHECK_FALSE(record.complete);

  JobRunner resumed;
  resumed.options.checkpoint = folder.path("state");
  resumed.options.resume = true;
  const RunRecord rest = resumed.run();
  CHECK(rest.complete);
  CHECK(rest.ranks[0].step.size() == 7);  // updates 9 to 15
  CHECK(rest.ranks[0].checksum == whole.ranks[0].checksum);
  CHECK(rest.ranks[2].checksum == whole.ranks[0].checksum);

  // Another model does not take it.
  JobRunner other;
  other.scenario.model = test::made_scenario(test::tiny_mlp(), StrategyKind::ddp, 3, 4).model;
  other.options.rank.data = nullptr;
  other.options.checkpoint = folder.path("state");
  other.options.resume = true;
  CHECK_THROWS_WITH_AS(
      other.run(), doctest::Contains("model is 'tiny-cnn' there, 'tiny-mlp' here; parameters is "), Error);
}

TEST_CASE("a checkpoint is resumed by the same training alone, and what differs is named") {
  const test::TemporaryFolder folder;
  JobRunner first;
  first.options.checkpoint = folder.path("state");
  first.run();
  const auto resumed = [&](const auto& change) {
    JobRunner other;
    other.options.checkpoint = folder.path("state");
    other.options.resume = true;
    change(other);
    return other.run();
  };
  const auto refuses = [&](const char* what, const auto& change) {
    CHECK_THROWS_WITH_AS(resumed(change), doctest::Contains(what), Error);
  };
  refuses("seed is '1' there, '2' here", [](JobRunner& run) { run.options.rank.seed = 2; });
  refuses("optimizer is 'sgd", [](JobRunner& run) { run.scenario.optimizer.kind = OptimizerKind::adam; });
  refuses(
      "batches is '4 from 0 updates, 8 from 6 updates, 12 from 10 updates' there, '4 from 0 updates, 8 from "
      "7",
      [](JobRunner& run) { run.job->schedule->phases[1].from = updates(7); });
  refuses("samples is '116' there, '200' here", [](JobRunner& run) { run.scenario.dataset_samples = 200; });
  refuses("last batch is 'keep' there, 'drop' here",
          [](JobRunner& run) { run.job->last_batch = LastBatch::drop; });
  refuses("accumulation is '1' there, '2' here",
          [](JobRunner& run) { run.scenario.strategy.accumulation = 2; });
  // Free to change.
  const RunRecord longer = resumed([](JobRunner& run) {
    run.job->epochs = 1.5;
    run.job->schedule->phases[2].learning_rate = 0.01;
    run.job->checkpoint->every = updates(2);
  });
  CHECK(longer.complete);
  CHECK(longer.resumed_after == 12);
}

TEST_CASE("several servers that would lose their state in a later phase are refused before the first step") {
  JobRunner job;
  job.scenario.strategy.kind = StrategyKind::parameter_server;
  job.scenario.strategy.servers = 2;
  job.scenario.optimizer.momentum = 0.9;
  job.options.job = job_plan(job.scenario);
  RunRecord record;
  CHECK_THROWS_WITH_AS(job.session.run(job.scenario, job.options, {}, record),
                       doctest::Contains("run: several servers keep the optimizer's state in parts"), Error);
  CHECK(record.ranks.empty());
  CHECK_FALSE(job_plan(job.scenario)->begin.is_finished());
  job.job->schedule->phases.resize(1);
  CHECK_FALSE(JobWalk(job.scenario).changes_shape());
}

TEST_CASE("a full disk at a checkpoint ends the run with an error that names the file") {
  JobRunner job;
  job.options.checkpoint = "/dev/full";
  job.options.job = job_plan(job.scenario);
  RunRecord record;
  CHECK_THROWS_WITH_AS(job.session.run(job.scenario, job.options, {}, record),
                       doctest::Contains("rank 0: /dev/full: cannot write: No space left on device"), Error);
  CHECK(record.ranks[0].step.size() == 4);
}

TEST_CASE("checkpoints written beside training are the same, and a full disk ends the run all the same") {
  const test::TemporaryFolder folder;
  JobRunner inside, beside;
  inside.options.checkpoint = folder.path("inside");
  beside.options.checkpoint = folder.path("beside");
  beside.job->checkpoint->asynchronous = true;
  CHECK(inside.run().ranks[0].checksum == beside.run().ranks[0].checksum);
  CHECK(test::read_file(folder.path("inside")) == test::read_file(folder.path("beside")));
  const RunRecord record = beside.run();
  CHECK(count(record, "checkpoint write") == 3);
  const MeasuredJob measured = measured_job(record);
  CHECK(measured.checkpoint.count == 3);
  CHECK(measured.write.count == 3);
  CHECK(measured.write_bytes > measured.checkpoint_bytes);  // with the file's heading
  Job job;
  job.checkpoint = Checkpoint{};
  job.checkpoint->asynchronous = true;
  const auto settings = cost_settings(record, job);
  CHECK(std::any_of(settings.begin(), settings.end(), [](const std::string& setting) {
    return setting.find("job.checkpoint.snapshot=") == 0;
  }));
  beside.options.checkpoint = "/dev/full";
  RunRecord full;
  CHECK_THROWS_WITH_AS(beside.session.run(beside.scenario, beside.options, {}, full),
                       doctest::Contains("/dev/full: cannot write: No space left on device"), Error);
}

TEST_CASE("warm-up leaves no trace in a job's weights") {
  JobRunner job;
  const std::uint64_t two = job.run().ranks[0].checksum;
  job.options.rank.length.warmup = 5;
  CHECK(job.run().ranks[0].checksum == two);
}

namespace {

// Of tiny_cnn on two workers with 5 samples each, epochs of 101 samples.
struct Planner {
  Scenario scenario = test::made_scenario(test::tiny_cnn(), StrategyKind::ddp, 2, 5);
  std::shared_ptr<Job> job = std::make_shared<Job>();

  Planner() {
    job->epochs = 3;
    scenario.job = job;
    scenario.dataset_samples = 101;
  }
  std::int64_t updates() const {
    JobWalk walk = job_plan(scenario)->begin;
    while (!walk.is_finished()) walk.advance();
    return walk.updates();
  }
};

}  // namespace

TEST_CASE("a scenario's job becomes a plan in updates") {
  Planner given;
  given.job->evaluate = Evaluation{{Interval::Unit::epochs, 1}, 50};
  given.job->checkpoint = Checkpoint{{Interval::Unit::epochs, 0.5}, Rate(1e9), {}};
  const JobPlan plan = *job_plan(given.scenario);
  CHECK(plan.evaluation_samples == 50);
  std::vector<std::int64_t> evaluations, checkpoints, short_ones;
  JobWalk walk = plan.begin;
  CHECK(walk.short_shares() == std::vector<std::int64_t>{1});
  while (!walk.is_finished()) {
    const PlannedUpdate update = walk.next();
    CHECK(update.full_share == 5);
    const JobWalk::After after = walk.advance();
    if (update.is_short()) {
      CHECK(update.batch == 1);  // on two workers: filled up to one each
      CHECK(update.share == 1);
      short_ones.push_back(walk.updates());
    }
    if (after.evaluates) evaluations.push_back(walk.updates());
    if (after.saves) checkpoints.push_back(walk.updates());
  }
  CHECK(walk.updates() == 33);
  CHECK(short_ones == std::vector<std::int64_t>{11, 22, 33});
  CHECK(evaluations == std::vector<std::int64_t>{11, 22, 33});
  CHECK(checkpoints == std::vector<std::int64_t>{6, 11, 17, 22, 28, 33});

  CHECK(given.updates() == 33);
  given.job->last_batch = LastBatch::drop;
  CHECK(given.updates() == 30);
  given.job->last_batch = LastBatch::carry;
  CHECK(given.updates() == 30);  // 30.3, rounded
  given.scenario.dataset_samples = 102;
  given.job->epochs = 5;
  CHECK(given.updates() == 51);

  given.scenario.job = nullptr;
  CHECK_FALSE(job_plan(given.scenario));
  given.scenario.job = given.job;
  given.job->checkpoint->every.unit = Interval::Unit::time;
  CHECK_THROWS_WITH_AS(job_plan(given.scenario), doctest::Contains("not after times"), Error);
  given.job->checkpoint.reset();
  given.job->workers.budget = 3;
  CHECK_THROWS_WITH_AS(job_plan(given.scenario), doctest::Contains("job.workers.most"), Error);
  given.scenario.dataset_samples.reset();
  given.job->workers.budget.reset();
  CHECK_THROWS_WITH_AS(job_plan(given.scenario), doctest::Contains("dataset.samples"), Error);
}

TEST_CASE("the short last batch of an epoch is run, by a program of its own that shares the weights") {
  // 26 samples in batches of 8 on two workers: 4 + 4 each three times, then one each.
  const auto trained = [](std::int64_t samples, LastBatch last,
                          std::vector<MonitorFinding>* findings = nullptr) {
    JobRunner runner;
    runner.job->schedule->phases = {{updates(0), 8, 2, 0.05, 1}};
    runner.job->epochs = 2;
    runner.job->last_batch = last;
    runner.scenario.dataset_samples = samples;
    const RunRecord record = runner.run();
    CHECK(record.complete);
    CHECK(record.ranks[0].checksum == record.ranks[1].checksum);
    if (findings != nullptr) *findings = record.findings;
    return std::pair(record.ranks[0].step.size(), record.ranks[0].checksum);
  };
  const auto kept = trained(26, LastBatch::keep), dropped = trained(26, LastBatch::drop),
             whole = trained(24, LastBatch::keep);
  CHECK(kept.first == 8);
  CHECK(dropped.first == 6);
  CHECK(whole.first == 6);
  CHECK(dropped.second != kept.second);

  // A short update moves the weights that the full ones go on from: by hand, with momentum.
  const Model model = test::tiny_mlp();
  const auto backend = device::reference::make_backend();
  const auto worker = backend->make_worker(0);
  device::BuildOptions how;
  how.batch = 4;
  how.optimizer.momentum = 0.9;
  const auto full = worker->build(model, how);
  how.batch = 2;
  how.shares = full.get();
  const auto small = worker->build(model, how);
  const std::uint64_t before = full->checksum();
  const auto train = [](device::Program& program) {
    for (const device::WorkItem& item : program.forward_items()) program.issue(item);
    for (const device::WorkItem& item : program.backward_items()) program.issue(item);
    program.update();
  };
  full->synthesize_input(1);
  small->synthesize_input(1);
  train(*small);
  CHECK(full->checksum() != before);
  CHECK(full->checksum() == small->checksum());
  CHECK(full->save_state() == small->save_state());
  train(*full);
  CHECK(full->checksum() == small->checksum());
  CHECK(small->report().parameter_bytes == 0);
}

TEST_CASE("evaluation at a batch of its own leaves training as it is") {
  const auto trained = [](std::int64_t batch, bool on_one) {
    JobRunner runner;
    runner.job->evaluate = Evaluation{updates(5), 40, batch, on_one};
    const RunRecord record = runner.run();
    CHECK(count(record, "evaluation") == 3);
    return record.ranks[0].checksum;
  };
  const std::uint64_t same = trained(0, false);
  CHECK(trained(10, false) == same);
  CHECK(trained(40, true) == same);
}

TEST_CASE("a learning rate follows its law in every update") {
  const auto trained = [](LearningRateLaw law) {
    JobRunner runner;
    runner.job->schedule.reset();
    runner.job->learning_rate = law;
    runner.scenario.optimizer.learning_rate = 0.05;
    return runner.run().ranks[0].checksum;
  };
  LearningRateLaw constant, law;
  law.kind = LearningRateLaw::Kind::steps;
  law.factor = 0.5;
  law.at = {updates(100)};
  CHECK(trained(law) == trained(constant));  // after the end
  law.at = {updates(9)};                     // before the last of ten
  CHECK(trained(law) != trained(constant));
  law.factor = 1;
  CHECK(trained(law) == trained(constant));
}

namespace {

struct AdaDampRunner : JobRunner {
  AdaDampRunner() {
    job->schedule.emplace();
    job->schedule->rule = Schedule::Rule::adadamp;
    job->schedule->name = "adadamp";
    job->schedule->batch = 4;
    job->schedule->dwell = 10;
    job->schedule->max_batch = 64;
    job->schedule->loss_samples = 64;
    job->workers.most = 2;
    job->last_batch = LastBatch::carry;
    job->epochs = 4;
    job->checkpoint->every = updates(15);
    scenario.dataset_samples = 300;
    scenario.optimizer.learning_rate = 0.05;
  }
};

}  // namespace

TEST_CASE("AdaDamp's batch follows the loss that is measured over the data") {
  AdaDampRunner runner;
  const RunRecord record = runner.run();
  CHECK(record.complete);
  std::vector<RunEvent> looks, phases;
  for (const RunEvent& event : record.events) {
    if (event.what == "adaptation") looks.push_back(event);
    if (event.what == "phase") phases.push_back(event);
  }
  REQUIRE(looks.size() >= 4);
  CHECK(looks[0].step == 0);
  CHECK(looks[0].loss == approx(std::log(5)).epsilon(0.3));  // five classes, nothing learnt
  CHECK(looks.back().loss < 0.8 * looks[0].loss);
  // ceil(B0 F0 / Fk), from the look on.
  for (const RunEvent& look : looks) {
    const double wanted = std::min(64.0, std::ceil(4 * std::max(1.0, looks[0].loss / look.loss) - 1e-9));
    const auto phase = std::find_if(phases.rbegin(), phases.rend(),
                                    [&](const RunEvent& event) { return event.step <= look.step; });
    REQUIRE(phase != phases.rend());
    const auto share = [](double batch) { return std::ceil(batch / 2); };
    CHECK(share(static_cast<double>(phase->batch)) == share(wanted));
  }
  CHECK(phases.back().batch > 4);
  const MeasuredJob measured = measured_job(record);
  CHECK(measured.adaptation.count == static_cast<int>(looks.size()));
  CHECK(measured.adaptation.time > 0);
  double sum =
      measured.adaptation.time + measured.startup.time + measured.rescale.time + measured.rebatch.time;
  std::int64_t steps = 0;
  for (const MeasuredPhase& phase : measured.phases) {
    sum += phase.time;
    steps += phase.updates;
  }
  CHECK(sum == approx(measured.total).epsilon(0.02));
  CHECK(steps == static_cast<std::int64_t>(record.ranks[0].step.size()));
  CHECK(measured.phases.size() <= phases.size());
}

TEST_CASE("AdaDamp resumes with the losses that it saw before") {
  const test::TemporaryFolder folder;
  AdaDampRunner unbroken;
  const RunRecord whole = unbroken.run();

  AdaDampRunner broken;
  broken.options.checkpoint = folder.path("state");
  broken.options.job = job_plan(broken.scenario);
  std::atomic<int> saves{0};
  broken.options.rank.before_step = [&](int rank, std::int64_t) {
    if (rank == 0 && std::filesystem::exists(folder.path("state")) && ++saves > 3)
      throw std::runtime_error("killed");
  };
  RunRecord record;
  CHECK_THROWS_AS(broken.session.run(broken.scenario, broken.options, {}, record), Error);

  AdaDampRunner resumed;
  resumed.options.checkpoint = folder.path("state");
  resumed.options.resume = true;
  const RunRecord rest = resumed.run();
  CHECK(rest.complete);
  CHECK(rest.resumed_after == 15);
  CHECK(rest.ranks[0].step.size() + 15 == whole.ranks[0].step.size());
  CHECK(rest.ranks[0].checksum == whole.ranks[0].checksum);
}
