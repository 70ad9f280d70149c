// Jobs of several phases, checkpoints and resumed runs, on the reference backend.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "device/reference/backend.hpp"
#include "execute/measured_job.hpp"
#include "execute/run_session.hpp"
#include "sim/input/job.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/fake_backend.hpp"
#include "tests/support/models.hpp"
#include "tests/support/scenarios.hpp"

using namespace foretrain;

namespace {

struct JobRunner {
  Scenario scenario = test::made_scenario(test::tiny_cnn(), StrategyKind::ddp, 3, 4);
  std::unique_ptr<device::Backend> backend = device::reference::make_backend();
  RunSession session{*backend, LaunchEnvironment{}, [](const char*) -> const char* { return nullptr; }};
  RunOptions options;

  JobRunner() {
    options.rank.length.warmup = 2;
    options.rank.data = make_learnable_data(*scenario.model, 5);
    options.job = JobPlan{};
    options.job->phases = {{6, 4, 1, 0.05}, {4, 8, 2, 0.05}, {5, 12, 3, 0.1}};
    options.job->checkpoints = {4, 8, 12};
  }
  RunRecord run() {
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
  job.options.job->evaluations = {5, 10, 15};
  job.options.job->evaluation_samples = 20;
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
  other.scenario = test::made_scenario(test::tiny_mlp(), StrategyKind::ddp, 3, 4);
  other.options.rank.data = nullptr;
  other.options.checkpoint = folder.path("state");
  other.options.resume = true;
  CHECK_THROWS_WITH_AS(other.run(), doctest::Contains("this run is 'reference tiny-mlp fp32'"), Error);
}

TEST_CASE("a full disk at a checkpoint ends the run with an error that names the file") {
  JobRunner job;
  job.options.checkpoint = "/dev/full";
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
  beside.options.job->writes_beside = true;
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

TEST_CASE("a scenario's job becomes a plan in updates") {
  Scenario scenario = test::made_scenario(test::tiny_cnn(), StrategyKind::ddp, 2, 5);
  CHECK_FALSE(job_plan(scenario));
  const auto job = std::make_shared<Job>();
  job->epochs = 3;
  job->evaluate = Evaluation{{Interval::Unit::epochs, 1}, 50};
  job->checkpoint = Checkpoint{{Interval::Unit::epochs, 0.5}, Rate(1e9), {}};
  scenario.job = job;
  CHECK_THROWS_WITH_AS(job_plan(scenario), doctest::Contains("dataset.samples"), Error);
  scenario.dataset_samples = 101;
  const JobPlan plan = *job_plan(scenario);
  CHECK(plan.updates() == 33);  // 11 an epoch, the last of them short
  CHECK(plan.short_batches == 3);
  job->last_batch = LastBatch::drop;
  CHECK(job_plan(scenario)->updates() == 30);
  job->last_batch = LastBatch::carry;
  CHECK(job_plan(scenario)->updates() == 30);
  CHECK(plan.evaluations == std::vector<std::int64_t>{11, 22, 33});
  CHECK(plan.evaluation_samples == 50);
  CHECK(plan.checkpoints == std::vector<std::int64_t>{6, 11, 17, 22, 28, 33});
  CHECK_THROWS_WITH_AS(with_phase(scenario, {1, 5, 2, {}}), "a batch of 5 cannot be dealt out to 2 workers",
                       Error);
}
