#include "sim/job/schedule.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/error.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;

namespace {

struct Given {
  Job job;
  ScheduleInput input;

  Given(double epochs, LastBatch last_batch, std::int64_t samples = 50'000) {
    job.epochs = epochs;
    job.last_batch = last_batch;
    input.job = &job;
    input.samples = samples;
    input.available = 1;
    input.learning_rate = 0.1;
  }
  Given(const Given& other) : job(other.job), input(other.input) { input.job = &job; }
  // Phases of (epochs, batch), one after the other.
  Given& phases(const std::vector<std::pair<double, std::int64_t>>& all) {
    job.schedule.emplace();
    double from = 0;
    for (const auto& [epochs, batch] : all) {
      job.schedule->phases.push_back({{Interval::Unit::epochs, from}, batch, {}, {}, 1});
      from += epochs;
    }
    return *this;
  }
  std::int64_t updates() const { return totals_of(input).updates; }
};

struct Published {
  const char* name;
  std::vector<std::pair<double, std::int64_t>> phases;
  std::int64_t exact, rounded_up;
};

// Smith et al. 2017 (arXiv 1711.00489), sections 5.1 and 5.2: CIFAR-10, 200 epochs. Counts: the sum of
// epochs x 50,000 / batch, and each epoch rounded up.
const std::vector<Published> published{
    {"decaying learning rate", {{60, 128}, {60, 128}, {40, 128}, {40, 128}}, 78'125, 78'200},
    {"hybrid", {{60, 128}, {60, 640}, {40, 640}, {40, 640}}, 34'375, 34'520},
    {"increasing batch", {{60, 128}, {60, 640}, {40, 3200}, {40, 16'000}}, 28'875, 29'000},
    {"increased initial rate", {{60, 640}, {60, 3200}, {80, 5120}}, 6406, 6500},
    {"increased momentum", {{60, 3200}, {140, 5120}}, 2305, 2360},
    {"increasing batch, at most 5120", {{60, 128}, {60, 640}, {40, 3200}, {40, 5120}}, 29'141, 29'240},
};

}  // namespace

TEST_CASE("update counts of the published schedules, both roundings") {
  for (const Published& one : published) {
    INFO(one.name);
    CHECK(Given(200, LastBatch::carry).phases(one.phases).updates() == one.exact);
    CHECK(Given(200, LastBatch::keep).phases(one.phases).updates() == one.rounded_up);
  }
}

TEST_CASE("a dropped last batch rounds each epoch down") {
  // 50,000 = 390 x 128 + 80.
  CHECK(Given(200, LastBatch::drop).phases({{200, 128}}).updates() == 200 * 390);
  const Given given = Given(2, LastBatch::drop).phases({{2, 128}});
  const ScheduleTotals totals = totals_of(given.input);
  CHECK(totals.samples == 2 * 390 * 128);
  CHECK(totals.epochs == 2);
}

TEST_CASE("the last batch of an epoch is short where it is kept") {
  const Given given = Given(1, LastBatch::keep, 300).phases({{1, 128}});
  ScheduleCursor cursor(given.input);
  CHECK(cursor.run().updates == 2);
  CHECK_FALSE(cursor.run().is_short);
  cursor.advance(1);
  CHECK(cursor.run().updates == 1);
  cursor.advance(1);
  CHECK(cursor.run().is_short);
  CHECK(cursor.run().batch == 44);
  cursor.advance(1);
  CHECK(cursor.is_finished());
  CHECK(cursor.samples() == 300);
}

// 512 = 4 x 128.
TEST_CASE("a data set of whole batches has no short one, and none is dropped") {
  for (const LastBatch last : {LastBatch::keep, LastBatch::drop, LastBatch::carry}) {
    const Given given = Given(2, last, 512).phases({{2, 128}});
    ScheduleCursor cursor(given.input);
    for (int update = 0; update < 8; ++update) {
      REQUIRE_FALSE(cursor.is_finished());
      CHECK_FALSE(cursor.run().is_short);
      CHECK(cursor.run().batch == 128);
      cursor.advance(1);
    }
    CHECK(cursor.is_finished());
    CHECK(cursor.samples() == 1024);
    CHECK(given.updates() == 8);
  }
}

TEST_CASE("a phase that would begin after the job's end never does") {
  for (const LastBatch last : {LastBatch::keep, LastBatch::drop, LastBatch::carry}) {
    const Given given = Given(1, last, 1000).phases({{2, 10}, {1, 20}});
    CHECK(given.updates() == 100);
  }
}

TEST_CASE("whole epochs with a short last batch train all samples of each") {
  const Given given = Given(5, LastBatch::keep, 300).phases({{5, 128}});
  const ScheduleTotals totals = totals_of(given.input);
  CHECK(totals.updates == 15);
  CHECK(totals.samples == 1500);
  CHECK(totals.epochs == 5);
}

TEST_CASE("advancing by ones or by runs is the same") {
  for (const LastBatch last : {LastBatch::keep, LastBatch::drop, LastBatch::carry}) {
    const Given given = Given(7.5, last, 1001).phases({{2.5, 30}, {1.25, 77}, {0.001, 400}, {9, 500}});
    ScheduleCursor one(given.input), many(given.input);
    std::int64_t ones = 0;
    for (; !one.is_finished(); ++ones) one.advance(1);
    while (!many.is_finished()) many.advance(many.run().updates);
    CHECK(one.updates() == many.updates());
    CHECK(one.updates() == ones);
    CHECK(one.samples() == many.samples());
  }
}

TEST_CASE("phases begin at updates too") {
  Given given(1, LastBatch::carry, 10'000);
  given.job.schedule.emplace();
  given.job.schedule->phases = {{{Interval::Unit::updates, 0}, 10, {}, 0.5, 1},
                                {{Interval::Unit::updates, 100}, 90, {}, 0.2, 1}};
  ScheduleCursor cursor(given.input);
  CHECK(cursor.run().updates == 100);
  CHECK(cursor.learning_rate() == 0.5);
  cursor.advance(100);
  CHECK(cursor.run().batch == 90);
  CHECK(cursor.run().updates == 100);  // 9,000 samples are left
  CHECK(cursor.learning_rate() == 0.2);
}

TEST_CASE("a phase that begins at updates ends at the next one's, and so counted from the job's begin") {
  Given given(1, LastBatch::keep, 10'000);
  given.job.schedule.emplace();
  given.job.schedule->phases = {{{Interval::Unit::updates, 0}, 10, {}, {}, 1},
                                {{Interval::Unit::updates, 100}, 20, {}, {}, 1},
                                {{Interval::Unit::updates, 150}, 40, {}, {}, 1}};
  ScheduleCursor cursor(given.input);
  cursor.advance(cursor.run().updates);
  CHECK(cursor.run().updates == 50);
  cursor.advance(50);
  CHECK(cursor.run().batch == 40);
  CHECK(cursor.run().updates == 200);  // 8,000 samples are left
}

TEST_CASE("PadaDamp: the batch is ceil(B0 + r k) at update k") {
  Given given(3, LastBatch::carry, 1000);
  given.job.schedule.emplace();
  Schedule& schedule = *given.job.schedule;
  schedule.rule = Schedule::Rule::padadamp;
  schedule.batch = 8;
  schedule.rate = 0.1;
  schedule.max_batch = 20;
  ScheduleCursor cursor(given.input);
  std::int64_t k = 0;
  double samples = 0;
  while (!cursor.is_finished()) {
    const UpdateRun run = cursor.run();
    for (std::int64_t i = 0; i < run.updates; ++i, ++k) {
      // k/10 in whole numbers: ceil(8 + k/10) = 8 + (k + 9) / 10.
      const std::int64_t wanted = 8 + (k + 9) / 10;
      CHECK(run.batch == std::min<std::int64_t>(20, wanted));
      samples += static_cast<double>(run.batch);
    }
    const double before = cursor.learning_rate();
    CHECK(before <= 0.1);
    if (cursor.wanted_batch() > 20) CHECK(before == test::approx(0.1 * 20 / cursor.wanted_batch()));
    cursor.advance(run.updates);
  }
  CHECK(samples == test::approx(3000).epsilon(0.01));
  schedule.dwell = 50;
  ScheduleCursor slow(given.input);
  CHECK(slow.run().updates == 50);
  slow.advance(50);
  CHECK(slow.run().batch == 13);
}

TEST_CASE("AdaDamp: the batch follows the loss of the curve") {
  Given given(100, LastBatch::carry, 1000);
  auto curve = std::make_shared<Curve>();
  curve->runs = {{{0, 4.0}, {100, 2.0}, {300, 1.0}}};
  given.job.curve = curve;
  given.job.schedule.emplace();
  Schedule& schedule = *given.job.schedule;
  schedule.rule = Schedule::Rule::adadamp;
  schedule.batch = 10;
  schedule.dwell = 100;
  ScheduleCursor cursor(given.input);
  CHECK(cursor.run().batch == 10);
  CHECK(cursor.run().adapts);
  CHECK(cursor.run().updates == 100);
  cursor.advance(40);
  CHECK_FALSE(cursor.run().adapts);
  cursor.advance(60);
  CHECK(cursor.run().batch == 20);  // 10 x 4 / 2
  cursor.advance(100);
  CHECK(cursor.run().batch == 27);  // 10 x 4 / 1.5, rounded up
  cursor.advance(100);
  CHECK(cursor.run().batch == 40);
}

TEST_CASE("worker rules") {
  WorkerRule rule;
  CHECK(workers_for(rule, 640, 8) == 8);
  rule.samples_per_worker = 128;
  CHECK(workers_for(rule, 640, 8) == 5);
  CHECK(workers_for(rule, 641, 8) == 6);
  CHECK(workers_for(rule, 16'000, 8) == 8);
  rule.most = 3;
  CHECK(workers_for(rule, 640, 8) == 3);
  rule = {};
  rule.fixed = 2;
  CHECK(workers_for(rule, 640, 8) == 2);
  CHECK(workers_for({}, 3, 8) == 3);
}

TEST_CASE("learning-rate laws") {
  Given given(10, LastBatch::carry, 1000);
  given.input.batch = 10;  // 100 updates an epoch
  SUBCASE("steps") {
    given.job.learning_rate.kind = LearningRateLaw::Kind::steps;
    given.job.learning_rate.factor = 0.1;
    given.job.learning_rate.at = {{Interval::Unit::epochs, 3}, {Interval::Unit::epochs, 6}};
    ScheduleCursor cursor(given.input);
    CHECK(cursor.learning_rate() == test::approx(0.1));
    cursor.advance(300);
    CHECK(cursor.learning_rate() == test::approx(0.01));
    cursor.advance(300);
    CHECK(cursor.learning_rate() == test::approx(0.001));
  }
  SUBCASE("cosine after a warm-up") {
    given.job.learning_rate.kind = LearningRateLaw::Kind::cosine;
    given.job.learning_rate.warmup = {Interval::Unit::updates, 50};
    ScheduleCursor cursor(given.input);
    CHECK(cursor.learning_rate() == test::approx(0.1 / 50));
    cursor.advance(500);
    CHECK(cursor.learning_rate() == test::approx(0.05));
  }
  SUBCASE("Noam") {
    // factor d^-0.5 min(k^-0.5, k w^-1.5): both terms meet at k = w.
    LearningRateLaw& law = given.job.learning_rate;
    law.kind = LearningRateLaw::Kind::noam;
    law.factor = 2;
    law.dimension = 512;
    law.warmup = {Interval::Unit::updates, 100};
    ScheduleCursor cursor(given.input);
    CHECK(cursor.learning_rate() == test::approx(2 / std::sqrt(512.0) / 1000));
    cursor.advance(99);
    CHECK(cursor.learning_rate() == test::approx(2 / std::sqrt(512.0) / 10));
    cursor.advance(300);
    CHECK(cursor.learning_rate() == test::approx(2 / std::sqrt(512.0) / 20));
  }
}

TEST_CASE("what a batch costs in samples") {
  // (S/Smin - 1)(E/Emin - 1) = 1 with a critical batch of 100: E(B) = Emin (1 + B/100). From batch 100 to 300
  // the samples double, the updates fall to 2/3.
  Given given(10, LastBatch::carry, 30'000);
  given.input.batch = 300;
  given.job.samples = {SamplesLaw::Kind::critical_batch, 100, 100, true};
  const ScheduleTotals large = totals_of(given.input);
  given.input.batch = 100;
  const ScheduleTotals small = totals_of(given.input);
  CHECK(small.updates == 3000);
  CHECK(large.updates == 2000);
  CHECK(large.samples == test::approx(2 * small.samples));
  given.job.last_batch = LastBatch::keep;
  given.input.batch = 300;
  CHECK(totals_of(given.input).updates == 2000);
  ScheduleCursor one(given.input);  // and update by update
  std::int64_t ones = 0;
  for (; !one.is_finished(); ++ones) one.advance(1);
  CHECK(ones == 2000);
}

TEST_CASE("a job without a data set is refused") {
  Given given(1, LastBatch::keep, 0);
  given.input.batch = 8;
  CHECK_THROWS_WITH_AS(ScheduleCursor(given.input), doctest::Contains("dataset"), Error);
}
