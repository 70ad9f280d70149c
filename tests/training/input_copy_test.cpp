#include "sim/training/input_copy.hpp"

#include <doctest/doctest.h>

#include "sim/input/job.hpp"
#include "sim/job/predict_job.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"
#include "tests/support/profiles.hpp"
#include "tests/support/scenarios.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

// A step of a known time, and copies from pinned memory at `rate` bytes a second.
struct Copied {
  Scenario scenario = test::made_scenario(test::tiny_cnn(), StrategyKind::independent, 1, 16);
  Profile profile = test::made_profile(*scenario.model, {8, 16, 32});

  Copied() { scenario.precision = Precision::bf16; }
  Result step(double rate, std::optional<bool> beside) {
    Profile made = profile;
    for (const std::int64_t bytes : {1000, 1'000'000}) {
      CopyEntry entry;
      entry.direction = "host_to_device";
      entry.bytes = bytes;
      entry.time.median = static_cast<double>(bytes) / rate;
      made.copies.push_back(entry);
    }
    scenario.profile = std::make_shared<const Profile>(made);
    scenario.input = nullptr;
    if (beside) {
      auto input = std::make_shared<InputPipeline>();
      input->to_device = *beside;
      scenario.input = input;
    }
    return predict_job(scenario);
  }
};

}  // namespace

TEST_CASE("a copy is hidden beside the step before, or added to it") {
  // 16 samples of 3 x 12 x 12 in fp32 and a label: 27,712 bytes. With a step of T and a copy of c:
  // ahead max(T, c), else T + c; without a described input there is no copy.
  Copied copied;
  CHECK(batch_bytes(*copied.scenario.model, 16) == 16 * (3 * 12 * 12 * 4 + 4));
  const double alone = copied.step(1e9, std::nullopt).step.time;
  for (const double share : {0.1, 0.5, 0.9, 1.5, 3.0}) {
    CAPTURE(share);
    const double copy = share * alone, rate = 27'712 / copy;
    const Result ahead = copied.step(rate, true), inside = copied.step(rate, false);
    CHECK(ahead.step.time == approx(std::max(alone, copy)).epsilon(1e-3));
    CHECK(inside.step.time == approx(alone + copy).epsilon(1e-3));
    CHECK(inside.step.breakdown.input == approx(copy).epsilon(1e-3));
    CHECK(ahead.step.breakdown.input == approx(std::max(0.0, copy - alone)).epsilon(1e-2).scale(alone));
    CHECK(inside.step.breakdown.total() == approx(inside.step.time));
    CHECK(inside.limiting.kind == "input");
    CHECK((ahead.limiting.kind == "input") == (share > 1.05));
    CHECK(inside.gpu.busy == approx(alone / (alone + copy)).epsilon(1e-2));
  }
}

TEST_CASE("without measured copies a step has none") {
  CHECK_FALSE(host_to_device(Profile{}, 1e6));
}
