// Steps of models of sequences: times between measured lengths, unequal lengths, sparse tables, hosts that
// are shared and captured steps. Profiles are made by rules, so that what is expected can be worked out.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/input/job.hpp"
#include "sim/input/sequence_lengths.hpp"
#include "sim/network/families.hpp"
#include "sim/training/execution_rule.hpp"
#include "sim/training/model_builder.hpp"
#include "sim/training/operator_curves.hpp"
#include "sim/training/predict.hpp"
#include "sim/training/step_times.hpp"
#include "sim/training/unequal_lengths.hpp"
#include "sim/training/whole_steps.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"
#include "tests/support/profiles.hpp"
#include "tests/support/scenarios.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

constexpr int words = 40, width = 8;

Model reader_of(std::int64_t length, bool ties = false) {
  ModelBuilder b("reader", {length}, words);
  b.take_tokens(words, length);
  const int x = b.embedding("embedding", b.input(), width, {});
  const int qkv = b.linear("qkv", x, 3 * width, true);
  const int y = b.attention("core", {qkv}, {.heads = 2, .kv_heads = 2, .causal = true});
  b.softmax_cross_entropy("loss", b.linear("output", y, ties ? 0 : words, true, {}, ties ? x : -1));
  Model model = b.finish();
  model.optimizer.momentum = 0.9;
  return model;
}

// Seconds of one pass: what works row by row 2 us and 10 ns a row, attention 5 ns a row and 0.1 ns a pair.
double rule(const Layer& layer, std::int64_t batch, std::int64_t length) {
  const auto rows = static_cast<double>(batch * length);
  if (layer.kind == LayerKind::attention) return 5e-9 * rows + 1e-10 * rows * static_cast<double>(length);
  return 2e-6 + 1e-8 * rows;
}

Sample sample(double seconds) {
  return {seconds, seconds, seconds, 0, 30};
}

std::shared_ptr<Profile> profile_of(const std::vector<std::int64_t>& lengths,
                                    const std::vector<std::int64_t>& batches, double host = 1e-6,
                                    bool ties = false) {
  auto profile = std::make_shared<Profile>(test::made_profile(reader_of(lengths[0], ties), {}));
  for (const std::int64_t length : lengths) {
    const Model model = reader_of(length, ties);
    for (const std::int64_t batch : batches) {
      for (std::size_t l = 1; l < model.layers.size(); ++l) {
        const Layer& layer = model.layers[l];
        OperatorEntry entry;
        entry.key = operator_key(model, layer);
        entry.layer = layer.name;
        entry.context = model.name;
        entry.precision = Precision::fp32;
        entry.batch = batch;
        entry.sequence = length;
        for (PassTiming& pass : entry.passes) pass = {sample(rule(layer, batch, length)), sample(host), 1};
        profile->operators.push_back(std::move(entry));
      }
    }
  }
  return profile;
}

double expected(std::int64_t batch, std::int64_t length) {
  const Model model = reader_of(length);
  double sum = 0;
  for (std::size_t l = 1; l < model.layers.size(); ++l) sum += 3 * rule(model.layers[l], batch, length);
  return sum;
}

double device_of(const StepTimes& times) {
  double sum = 0;
  for (const auto* items : {&times.forward, &times.backward})
    for (const StepItem& item : *items) sum += item.device;
  return sum;
}

Scenario scenario_of(std::shared_ptr<const Profile> profile, int workers, std::int64_t batch,
                     std::int64_t length, bool ties = false) {
  Scenario scenario = test::made_scenario(reader_of(length, ties), StrategyKind::ddp, workers, batch);
  scenario.profile = std::move(profile);
  return scenario;
}

std::shared_ptr<SequenceLengths> lengths_of(LengthBatching batching, std::vector<LengthCount> histogram) {
  auto lengths = std::make_shared<SequenceLengths>();
  lengths->histogram = std::move(histogram);
  lengths->batching = batching;
  lengths->model_at = [](std::int64_t length) { return std::make_shared<const Model>(reader_of(length)); };
  return lengths;
}

}  // namespace

TEST_CASE("times at a length between those measured follow rows and pairs") {
  const auto profile = profile_of({64, 256}, {2, 4, 8, 16});
  for (const std::int64_t length : {64, 100, 128, 256}) {
    for (const std::int64_t batch : {2, 5, 8}) {
      CAPTURE(length);
      CAPTURE(batch);
      const Model model = reader_of(length);
      const StepTimes times = step_times(model, *profile, Precision::fp32, batch, model.optimizer);
      CHECK(device_of(times) == approx(expected(batch, length)).epsilon(1e-9));
      const bool is_measured = (length == 64 || length == 256) && batch != 5;
      CHECK((times.origin == Origin::measured) == is_measured);
      CHECK(times.extrapolated.empty());
    }
  }
  const Model model = reader_of(512);
  const StepTimes beyond = step_times(model, *profile, Precision::fp32, 4, model.optimizer);
  REQUIRE(beyond.extrapolated.size() == 1);
  CHECK(beyond.extrapolated[0].what == "sequence");
  CHECK(beyond.extrapolated[0].range == "64 to 256");
}

TEST_CASE("a recurrence has launches for each position, fused or not") {
  for (const bool unrolled : {false, true}) {
    CAPTURE(unrolled);
    const auto speaker_of = [unrolled](std::int64_t length) {
      ModelBuilder b("speaker", {length}, words);
      b.take_tokens(words, length);
      const int x = b.embedding("embedding", b.input(), width, {});
      const int y = b.recurrence(LayerKind::lstm, "cell", {x}, {.hidden = width, .unrolled = unrolled});
      b.softmax_cross_entropy("loss", b.linear("output", y, words, true));
      return b.finish();
    };
    Profile profile = test::made_profile(speaker_of(20), {});
    profile.optimizers = {{"sgd", "speaker", Precision::fp32, 1000, {}}};
    for (const std::int64_t length : {20, 60}) {
      const Model model = speaker_of(length);
      for (std::size_t l = 1; l < model.layers.size(); ++l) {
        const Layer& layer = model.layers[l];
        OperatorEntry entry;
        entry.key = operator_key(model, layer);
        entry.layer = layer.name;
        entry.context = model.name;
        entry.precision = Precision::fp32;
        entry.batch = 4;
        entry.sequence = length;
        const int launches = is_recurrence(layer.kind) ? static_cast<int>(5 + 8 * length) : 1;
        for (PassTiming& pass : entry.passes)
          pass = {sample(1e-6 * launches), sample(7e-6 * launches), static_cast<double>(launches)};
        profile.operators.push_back(std::move(entry));
      }
    }
    const Model model = speaker_of(30);
    const StepTimes times = step_times(model, profile, Precision::fp32, 4, model.optimizer);
    for (const StepItem& item : times.forward) {
      const bool cell = model.layers[static_cast<std::size_t>(item.layer)].name == "cell";
      CHECK(item.launches == (cell ? 5 + 8 * 30 : 1));
      CHECK(item.host == approx(7e-6 * item.launches));
    }
  }
}

TEST_CASE("a model of sequences without times says how to calibrate it") {
  const Model model = test::tiny_llama();
  CHECK_THROWS_WITH_AS(step_times(model, *profile_of({64}, {2}), Precision::bf16, 4, model.optimizer),
                       doctest::Contains("--batch 4 --sequence 6"), Error);
}

// Of a batch of b samples, the longest is at most L if all are: P = F(L)^b.
TEST_CASE("the longest row of a batch decides, by each way of batching") {
  const std::vector<LengthCount> histogram{{10, 3}, {20, 1}};
  const auto drawn = [&](LengthBatching batching, std::int64_t batch) {
    return draw_lengths(*lengths_of(batching, histogram), batch, 4, 500, 1);
  };
  const DrawnLengths global = drawn(LengthBatching::pad_global, 4);
  CHECK(global.padded == 20);
  CHECK(global.useful == approx(12.5));
  const DrawnLengths of_batch = drawn(LengthBatching::pad_batch, 2);
  CHECK(of_batch.padded == approx(20 - 10 * 0.75 * 0.75).epsilon(0.03));
  auto quarters = lengths_of(LengthBatching::bucketed, histogram);
  quarters->buckets = 4;
  const DrawnLengths bucketed = draw_lengths(*quarters, 8, 4, 500, 1);
  CHECK(bucketed.padded == approx(12.5).epsilon(0.03));  // one bucket in four is of long ones
  CHECK(std::any_of(bucketed.draws.begin(), bucketed.draws.end(), [](const LengthDraw& draw) {
    return *std::min_element(draw.rows.begin(), draw.rows.end()) < draw.longest();
  }));
  const DrawnLengths packed = drawn(LengthBatching::packed, 4);
  CHECK(packed.padded == 20);
  CHECK(packed.useful > 18);  // two of ten or one of twenty fill a row
  CHECK(packed.samples_a_row == approx(packed.useful / 12.5));
}

TEST_CASE("workers with shorter rows wait for those with longer ones") {
  Scenario scenario = scenario_of(profile_of({64, 128, 256}, {2, 4, 8, 16}), 4, 4, 256);
  const std::vector<LengthCount> histogram{{64, 1}, {256, 1}};
  const auto with = [&](LengthBatching batching) {
    auto lengths = lengths_of(batching, histogram);
    lengths->buckets = 2;
    scenario.lengths = lengths;
    return predict(scenario, {.remedies = false});
  };
  const Result equal = [&] {
    scenario.lengths = nullptr;
    return predict(scenario, {.remedies = false});
  }();
  CHECK_FALSE(equal.sequences);
  CHECK(equal.units_per_second == approx(256 * equal.samples_per_second));
  const Result global = with(LengthBatching::pad_global);
  REQUIRE(global.sequences);
  CHECK(global.step.time == approx(equal.step.time));
  CHECK(global.sequences->waiting == 0);
  CHECK(global.sequences->padding == approx(1 - 160.0 / 256));
  CHECK(global.sequences->padded_per_second == approx(equal.units_per_second));
  CHECK(global.limiting.text.find("harms learning") != std::string::npos);
  // Half of the workers draw the bucket of short ones, all alike in it; one step in sixteen has no long row.
  const Result bucketed = with(LengthBatching::bucketed);
  CHECK(bucketed.sequences->padding == doctest::Approx(0).epsilon(0.2));
  CHECK(bucketed.sequences->waiting > 0.2 * (expected(4, 256) - expected(4, 64)));
  CHECK(bucketed.step.time == approx(equal.step.time).epsilon(0.01));
  CHECK(bucketed.step.p05 <= bucketed.step.time);
  CHECK(bucketed.limiting.text.find("waits") != std::string::npos);
  const Result packed = with(LengthBatching::packed);
  CHECK(packed.samples_per_second > 1.2 * global.samples_per_second);
}

TEST_CASE("a sparse table is gathered, and a dense one pays from some number of ranks on") {
  const Model model = reader_of(64);
  GradientOrder order;
  order.completing.assign(model.parameters.size(), 3);
  order.completing[0] = 9;
  Fusion fusion;
  fusion.embedding = EmbeddingGradient::sparse;
  const std::vector<Bucket> buckets = fuse(model, fusion, Precision::fp32, order);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].bytes.count() == 4 * (model.parameter_count() - words * width));
  CHECK(buckets[0].ready == 3);
  CHECK(buckets[1].is_sparse());
  CHECK(buckets[1].ready == 9);
  CHECK(buckets[1].sparse_bytes(2).count() == 2 * 64 * (4 * width + 8));

  Scenario scenario = scenario_of(profile_of({64}, {2, 4, 8}), 4, 4, 64);
  const double dense = predict(scenario, {.remedies = false}).communication.bytes_per_worker;
  scenario.strategy.fusion.embedding = EmbeddingGradient::sparse;
  const Result sparse = predict(scenario, {.remedies = false});
  CHECK(dense - 4 * words * width + 4 * 4 * 64 * (4 * width + 8) == sparse.communication.bytes_per_worker);
  // 2 x 40 x 32 bytes of the table against 256 x 40 of a rank's rows: at once.
  CHECK(sparse.limiting.text.find("by bytes pays from 2 ranks on") != std::string::npos);
}

TEST_CASE("a table that the output shares is dense, and gathered whole where it is taken for sparse") {
  const Model model = reader_of(64, true);
  GradientOrder order;
  order.completing.assign(model.parameters.size(), 0);
  Fusion fusion;
  fusion.embedding = EmbeddingGradient::sparse;
  CHECK_THROWS_WITH_AS(fuse(model, fusion, Precision::fp32, order), doctest::Contains("tied_sparse"), Error);
  fusion.embedding = EmbeddingGradient::tied_sparse;
  const std::vector<Bucket> buckets = fuse(model, fusion, Precision::bf16, order);
  const auto table =
      std::find_if(buckets.begin(), buckets.end(), [](const Bucket& b) { return b.is_sparse(); });
  REQUIRE(table != buckets.end());
  CHECK(table->sparse_bytes(3).count() == (words + 3 * 64) * (2 * width + 8));
  CHECK_THROWS_WITH_AS(fuse(test::tiny_mlp(), fusion, Precision::fp32, order),
                       doctest::Contains("has no embedding"), Error);
}

TEST_CASE("one process with few threads launches for many GPUs, and that costs where the host is the limit") {
  // Six layers of three passes, 40 us of host each: far above the kernels.
  Scenario scenario = scenario_of(profile_of({64}, {2, 4, 8}, 40e-6), 8, 4, 64);
  const double own = predict(scenario, {.remedies = false}).step.time;
  HostDescription host;
  host.one_process = true;
  const auto with = [&](int threads) {
    host.threads = threads;
    scenario.host = std::make_shared<const HostDescription>(host);
    return predict(scenario, {.remedies = false});
  };
  CHECK(launching_factor(scenario, 8) == 1);
  CHECK(with(8).step.time == approx(own));
  CHECK(with(16).step.time == approx(own));
  const Result shared = with(2);
  CHECK(launching_factor(scenario, 8) == 4);
  CHECK(launching_factor(scenario, 1) == 1);
  CHECK(shared.step.time > 3 * own);
  CHECK(shared.efficiency < 0.4);  // of one worker, which shares nothing
  CHECK(shared.limiting.kind == "host");
  CHECK(std::any_of(shared.warnings.begin(), shared.warnings.end(),
                    [](const std::string& text) { return text.starts_with("host: launching threads"); }));
  host = {.one_process = false, .threads = 1, .cores = 4};
  scenario.host = std::make_shared<const HostDescription>(host);
  CHECK(launching_factor(scenario, 8) == 2);
}

TEST_CASE("a step bound by its launches does not depend on the batch, until the kernels take longer") {
  // 18 passes of 40 us on the host; kernels take as long at about 3,400 rows.
  const auto profile = profile_of({64}, {1, 1024}, 40e-6);
  const auto seconds = [&](std::int64_t batch) {
    return predict(scenario_of(profile, 1, batch, 64), {.remedies = false}).step.time;
  };
  CHECK(seconds(2) == approx(seconds(1)).epsilon(0.01));
  CHECK(seconds(16) == approx(seconds(1)).epsilon(0.01));
  CHECK(seconds(512) > 1.8 * seconds(256));
}

TEST_CASE("a captured step is free of its launches") {
  Scenario scenario = scenario_of(profile_of({64}, {2, 4, 8}, 40e-6), 1, 4, 64);
  const Result plain = predict(scenario, {.remedies = false});
  CHECK(plain.limiting.kind == "host");
  scenario.execution.cuda_graph = true;
  const Result captured = predict(scenario, {.remedies = false});
  CHECK(captured.limiting.kind == "gpu");
  CHECK(captured.step.time < 0.5 * plain.step.time);
  CHECK(captured.step.time >= expected(4, 64));
  CHECK(captured.warnings.size() == plain.warnings.size() + 1);
}

TEST_CASE("what calibration measured of captured steps takes the place of the assumption") {
  Profile profile = *profile_of({64}, {2, 4, 8}, 40e-6);
  Scenario scenario = scenario_of(std::make_shared<const Profile>(profile), 1, 4, 64);
  scenario.execution.cuda_graph = true;
  const double assumed = predict(scenario, {.remedies = false}).step.time;
  // Kernels take 0.8 of their time in a captured step, the update as long as ever.
  REQUIRE(profile.optimizers.size() == 1);
  profile.optimizers[0].precision = scenario.precision;
  const double update = profile.optimizers[0].update.device.median;
  for (const std::int64_t batch : {2, 4, 8}) {
    double passes = 0;
    for (const OperatorEntry& entry : profile.operators) {
      if (entry.batch != batch) continue;
      for (const PassTiming& pass : entry.passes) passes += pass.device.median;
    }
    StepWorkEntry step;
    step.what = captured_step_work;
    step.model = scenario.model->name;
    step.precision = scenario.precision;
    step.batch = batch;
    step.sequence = 64;
    Sample& device = step.timing.device;
    device.median = device.low = device.high = 0.8 * passes + update;
    device.repetitions = 50;
    step.timing.host.median = 3e-6;
    profile.step_work.push_back(step);
  }
  // Without the update's time in this precision the passes' cannot be told from it.
  Profile without = profile;
  without.optimizers[0].precision = Precision::bf16;
  scenario.profile = std::make_shared<const Profile>(without);
  const std::vector<std::string> warnings = predict(scenario, {.remedies = false}).warnings;
  CHECK(std::any_of(warnings.begin(), warnings.end(), [](const std::string& text) {
    return text.starts_with("cuda_graph: the host takes one launch");
  }));
  scenario.profile = std::make_shared<const Profile>(profile);
  const Result measured = predict(scenario, {.remedies = false});
  CHECK(measured.step.time == approx(0.8 * (assumed - update) + update).epsilon(0.03));
  // What is proposed for the step as it is, is what it would take.
  scenario.execution.cuda_graph = false;
  NvlinkNode node;
  node.gpus_per_node = 1;
  scenario.cluster.topology = make_topology(node);
  const Result proposed = predict(scenario);
  const auto graph =
      std::find_if(proposed.remedies.begin(), proposed.remedies.end(),
                   [](const Remedy& remedy) { return remedy.change == "the step as a CUDA graph"; });
  REQUIRE(graph != proposed.remedies.end());
  CHECK(graph->step == approx(measured.step.p50));
  CHECK(std::none_of(measured.warnings.begin(), measured.warnings.end(),
                     [](const std::string& text) { return text.starts_with("cuda_graph"); }));
}
