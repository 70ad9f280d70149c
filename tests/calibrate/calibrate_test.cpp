#include "calibrate/calibrate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>

#include "sim/base/error.hpp"
#include "sim/input/profile_json.hpp"
#include "sim/training/crowding.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/fake_backend.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::calibrate;
using foretrain::test::approx;

namespace {

test::FakeScript two_devices() {
  test::FakeScript script;
  script.devices = 2;
  script.item = test::plain_timing;
  script.device_sigma = 0.01;
  script.host_sigma = 0.02;
  script.compute_slowdown = 1.1;
  script.collective_slowdown = 1.3;
  script.collective = [](CollectiveKind, std::int64_t bytes, int, const std::string&, const std::string&) {
    return test::FakeChoice{"RING proto SIMPLE channel{Lo..Hi}={0..7}",
                            20e-6 + static_cast<double>(bytes) / 200e9};
  };
  return script;
}

Request request_for(Model model) {
  Request request;
  request.model = std::make_shared<const Model>(std::move(model));
  request.batches = {32, 128};
  request.precisions = {Precision::bf16};
  request.profile_name = "fake";
  request.command = "foretrain calibrate";
  return request;
}

}  // namespace

TEST_CASE("a calibration holds all that the predictor asks for") {
  test::FakeClock clock;
  test::FakeBackend backend(two_devices(), clock);
  Request request = request_for(test::wide_resnet(16, 4));
  request.collectives = true;
  request.largest_collective = 1 << 17;
  int saved = 0;
  Hooks hooks;
  hooks.finished = [&](const Profile&) { ++saved; };
  const Calibration done = calibrate::calibrate(backend, clock, request, hooks);
  const Profile& profile = done.profile;

  REQUIRE(profile.runs.size() == 1);
  CHECK(profile.runs[0].complete);
  CHECK(profile.runs[0].machine.gpu == "Fake 1");
  CHECK_FALSE(profile.runs[0].machine.throttled);
  CHECK(profile.runs[0].seconds < default_seconds(request, 2) * 1.3);
  CHECK(profile.device == "reference");
  CHECK(saved > 2);

  const std::size_t layers = request.model->layers.size() - 1;
  CHECK(profile.operators.size() == 2 * layers);
  double sum = 0;
  for (const OperatorEntry& entry : profile.operators) {
    CHECK(entry.context == request.model->name);
    CHECK_FALSE(entry.layer.empty());
    CHECK_FALSE(entry.key.empty());
    if (entry.batch != 128) continue;
    for (const PassTiming& timing : entry.passes) sum += timing.device.median;
  }
  REQUIRE(profile.steps.size() == 2);
  REQUIRE(profile.optimizers.size() == 1);
  CHECK(profile.optimizers[0].kind == "sgd-momentum");
  CHECK(profile.optimizers[0].update.device.median == approx(backend.script.update.device).epsilon(0.01));
  std::set<std::string> step_work;
  for (const StepWorkEntry& entry : profile.step_work) {
    step_work.insert(entry.what);
    if (entry.batch == 128 && entry.what != "input_copy") sum += entry.timing.device.median;
  }
  CHECK(step_work == std::set<std::string>{"cast_weights", "zero_gradients", "input_copy"});
  sum += profile.optimizers[0].update.device.median;
  CHECK(sum == approx(profile.steps[1].step.median).epsilon(0.01));
  CHECK(profile.steps[1].launches > 0);
  CHECK(profile.steps[1].peak_bytes > 0);

  CHECK(profile.launches.size() == 1);
  CHECK(std::any_of(profile.copies.begin(), profile.copies.end(),
                    [](const CopyEntry& entry) { return entry.direction == "peer"; }));
  std::set<std::string> kinds, algorithms;
  for (const CollectiveEntry& entry : profile.collectives) {
    kinds.insert(entry.kind);
    algorithms.insert(entry.algorithm + " " + entry.protocol);
    CHECK(entry.network == "nvlink");
    CHECK(entry.time.median > 0);
  }
  CHECK(kinds.size() == 7);
  CHECK(algorithms.size() == 7);
  REQUIRE(profile.interference.size() == 1);
  for (const InterferenceEntry& entry : profile.interference) {
    CHECK(entry.compute_slowdown.median == approx(1.1).epsilon(0.02));
    CHECK(entry.collective_slowdown.median == approx(1.3).epsilon(0.05));
  }
  // Device and host, of all batches and of each.
  REQUIRE(profile.noise.size() == 6);
  for (const NoiseEntry& entry : profile.noise) CHECK(entry.sigma > 0);
  REQUIRE(profile.overlaps.size() == 2);
  for (const OverlapEntry& entry : profile.overlaps) {
    CHECK(entry.ranks == 2);
    CHECK(entry.alone.median > 0);
    CHECK(entry.step.median > entry.alone.median);
    CHECK(entry.one.repetitions == 0);
    CHECK(entry.interference_scale < 0);
  }

  REQUIRE(done.checks.size() == 2);
  CHECK(std::abs(residual(done.checks[0])) < 0.01);

  // What is written can be read.
  Diagnostics diagnostics;
  const auto read = parse_profile(profile_to_json(profile), "fake.json", diagnostics);
  diagnostics.throw_errors();
  REQUIRE(read);
  CHECK(read->operators.size() == profile.operators.size());
}

TEST_CASE(
    "what workers on one host's cores cost each other is measured in turns, however their speed drifts") {
  test::FakeClock clock;
  test::FakeScript script = two_devices();
  script.name = "cpu";
  script.drift = [](double now) { return 1 + now / 60; };
  test::FakeBackend backend(script, clock);
  Request request = request_for(test::wide_resnet(16, 4));
  request.precisions = {Precision::fp32};
  const Profile profile = calibrate::calibrate(backend, clock, request, {}).profile;
  REQUIRE(profile.overlaps.size() == 2);
  for (const OverlapEntry& entry : profile.overlaps) {
    CAPTURE(entry.batch);
    REQUIRE(entry.one.repetitions > 0);
    CHECK(entry.alone.median / entry.one.median == approx(1).epsilon(0.02));
    const auto whole = std::find_if(profile.steps.begin(), profile.steps.end(),
                                    [&](const StepEntry& step) { return step.batch == entry.batch; });
    REQUIRE(whole != profile.steps.end());
    CHECK(std::abs(entry.alone.median / whole->step.median - 1) > 0.05);  // of some seconds away
  }
  CHECK(crowding_of(profile, request.model->name, Precision::fp32, 2).factor == approx(1).epsilon(0.02));
}

// A step of half a second, as a small convolutional network's on one core.
TEST_CASE(
    "a session keeps to its seconds where steps are long, and collectives are of the model's gradients") {
  test::FakeClock clock;
  test::FakeScript script = two_devices();
  SUBCASE("devices") {
    script.name = "reference";
  }
  SUBCASE("workers that share cores") {
    script.name = "cpu";
  }
  script.item = [](const Model& model, const device::WorkItem& item, std::int64_t batch) {
    test::FakeTiming timing = test::plain_timing(model, item, batch);
    timing.device = 0.5 / (3 * static_cast<double>(model.layers.size()));
    return timing;
  };
  script.collective = [](CollectiveKind, std::int64_t bytes, int, const std::string&, const std::string&) {
    return test::FakeChoice{"RING", 100e-6 + static_cast<double>(bytes) / 1e9};
  };
  test::FakeBackend backend(script, clock);
  Request request = request_for(test::wide_resnet(16, 4));
  request.seconds = 40;
  const Calibration done = calibrate::calibrate(backend, clock, request, {});
  CHECK(done.profile.runs[0].complete);
  CHECK(done.profile.runs[0].seconds < 1.5 * request.seconds);
  CHECK(done.profile.steps.size() == 2);
  CHECK(done.profile.overlaps.size() == 2);
  REQUIRE(done.profile.interference.size() == 1);
  const std::int64_t gradients = 4 * request.model->parameter_count();
  CHECK(done.profile.interference[0].bytes >= gradients);
  CHECK(done.profile.interference[0].bytes < gradients + 32);
  CHECK(done.profile.interference[0].compute_slowdown.median == approx(1.1).epsilon(0.05));
}

TEST_CASE("throttling is told with its reason") {
  test::FakeClock clock;
  test::FakeScript script = two_devices();
  script.devices = 1;
  script.throttled = true;
  test::FakeBackend backend(script, clock);
  const Calibration done = calibrate::calibrate(backend, clock, request_for(test::tiny_cnn()), {});
  CHECK(done.profile.runs[0].machine.throttled);
  CHECK(done.profile.runs[0].machine.throttle_reason == "power cap");
  CHECK_FALSE(done.profile.runs[0].warnings.empty());
  CHECK(done.profile.interference.empty());
}

TEST_CASE("communicators are made before any device works, and steps with gradients exchanged use them") {
  test::FakeClock clock;
  test::FakeScript script = two_devices();
  std::mutex mutex;
  std::vector<std::string> calls;
  script.before = [&](const std::string& call, int) {
    const std::scoped_lock lock(mutex);
    if (call == "join" || call == "build") calls.push_back(call);
  };
  test::FakeBackend backend(script, clock);
  const Calibration done = calibrate::calibrate(backend, clock, request_for(test::tiny_cnn()), {});
  CHECK(done.profile.overlaps.size() == 2);
  REQUIRE(calls.size() > 4);
  CHECK(calls[0] == "join");
  CHECK(calls[1] == "join");
  CHECK(std::count(calls.begin(), calls.end(), "join") == 2);
}

TEST_CASE("where the model's learning rate makes the loss infinite calibration lowers it and says so") {
  test::FakeClock clock;
  test::FakeScript script = two_devices();
  script.devices = 1;
  std::vector<double> rates;
  script.loss = [&](double rate) {
    rates.push_back(rate);
    return rate > 0.01 ? std::numeric_limits<double>::infinity() : 2.0;
  };
  test::FakeBackend backend(script, clock);
  Request request = request_for(test::tiny_cnn());
  request.batches = {32};
  const double own = request.model->optimizer.learning_rate;
  REQUIRE(own > 0.01);
  const Calibration done = calibrate::calibrate(backend, clock, request, {});
  REQUIRE(rates.size() == 2);
  CHECK(rates[0] == own);
  CHECK(rates[1] < 0.01);
  REQUIRE(done.profile.steps.size() == 1);
  REQUIRE(done.profile.runs[0].warnings.size() == 1);
  CHECK(done.profile.runs[0].warnings[0].find("the loss is not finite") != std::string::npos);
}

TEST_CASE("a batch that does not fit is left out with a warning, and an error where none fits") {
  test::FakeClock clock;
  test::FakeScript script = two_devices();
  script.devices = 1;
  int builds = 0;
  script.before = [&](const std::string& call, int) {
    if (call == "build" && ++builds == 2)
      throw Error(ErrorKind::failure, "the GPU is out of memory: cudaMalloc");
  };
  test::FakeBackend backend(script, clock);
  const Request request = request_for(test::tiny_cnn());
  const Calibration done = calibrate::calibrate(backend, clock, request, {});
  REQUIRE(done.profile.steps.size() == 1);
  CHECK(done.profile.steps[0].batch == 32);
  REQUIRE(done.profile.runs[0].warnings.size() >= 1);
  CHECK(done.profile.runs[0].warnings[0].find("batch 128 was left out") != std::string::npos);

  test::FakeScript full = two_devices();
  full.before = [](const std::string& call, int) {
    if (call == "build") throw Error(ErrorKind::failure, "the GPU is out of memory: cudaMalloc");
  };
  test::FakeBackend small(full, clock);
  CHECK_THROWS_AS(calibrate::calibrate(small, clock, request, {}), Error);

  test::FakeScript broken = two_devices();
  broken.before = [](const std::string& call, int) {
    if (call == "build") throw Error(ErrorKind::failure, "cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED");
  };
  test::FakeBackend defect(broken, clock);
  CHECK_THROWS_AS(calibrate::calibrate(defect, clock, request, {}), Error);
}

TEST_CASE("an interruption leaves what is finished") {
  test::FakeClock clock;
  test::FakeBackend backend(two_devices(), clock);
  std::atomic<bool> stop{false};
  Hooks hooks;
  hooks.stop = &stop;
  hooks.finished = [&](const Profile& profile) {
    if (profile.steps.size() == 1) stop = true;
  };
  const Calibration done = calibrate::calibrate(backend, clock, request_for(test::tiny_cnn()), hooks);
  CHECK_FALSE(done.profile.runs[0].complete);
  CHECK(done.profile.steps.size() == 1);
}

TEST_CASE("no device, too few devices, or one for collectives is an error of its own kind") {
  test::FakeClock clock;
  test::FakeScript script = two_devices();
  script.devices = 0;
  test::FakeBackend none(script, clock);
  const auto kind_of = [&](device::Backend& backend, const Request& request) {
    try {
      calibrate::calibrate(backend, clock, request, {});
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::failure;
  };
  Request request = request_for(test::tiny_cnn());
  CHECK(kind_of(none, request) == ErrorKind::unavailable);
  script.devices = 1;
  test::FakeBackend one(script, clock);
  request.gpus = 2;
  CHECK(kind_of(one, request) == ErrorKind::unavailable);
  request.gpus = 0;
  request.collectives = true;
  CHECK(kind_of(one, request) == ErrorKind::unavailable);
}

TEST_CASE("six batches and collectives keep to the budget of a minute") {
  test::FakeClock clock;
  test::FakeScript script = two_devices();
  script.device_sigma = 0.3;  // never as sure as asked for
  test::FakeBackend backend(script, clock);
  Request request = request_for(test::wide_resnet(16, 4));
  request.batches = {32, 64, 96, 128, 192, 256};
  request.collectives = true;
  request.largest_collective = 1 << 17;
  CHECK(default_seconds(request, 2) <= 60);
  const Calibration done = calibrate::calibrate(backend, clock, request, {});
  CHECK(done.profile.runs[0].seconds < 60);
  CHECK(done.profile.steps.size() == 6);
}
