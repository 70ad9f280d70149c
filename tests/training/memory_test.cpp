#include "sim/training/memory.hpp"

#include <doctest/doctest.h>

#include <map>

#include "sim/training/model_builder.hpp"
#include "sim/training/parameter_list.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

MemoryEstimate estimate(const Model& model, std::int64_t batch, Precision precision = Precision::bf16) {
  return estimate_memory(model, batch, precision, Precision::fp32, model.optimizer, nullptr);
}

Profile profile_of(double memory_bytes) {
  Profile profile;
  profile.runs.emplace_back();
  profile.runs[0].machine.memory_bytes = memory_bytes;
  return profile;
}

}  // namespace

TEST_CASE("parameters, gradients and optimizer state by precision and kind") {
  Model model = list_of_parameters("m", {{"a", {256}, {}}, {"b", {100}, {}}});
  CHECK(flat_elements(model) == 256 + 128);
  const auto memory_of = [&](Precision precision, Precision gradients) {
    return estimate_memory(model, 1, precision, gradients, model.optimizer, nullptr).memory;
  };
  CHECK(memory_of(Precision::fp32, Precision::fp32).parameters == 4 * 384);
  CHECK(memory_of(Precision::bf16, Precision::fp32).parameters == 6 * 384);
  CHECK(memory_of(Precision::bf16, Precision::bf16).gradients == 2 * 384);
  CHECK(memory_of(Precision::tf32, Precision::fp32).optimizer == 0);
  model.optimizer.momentum = 0.9;
  CHECK(memory_of(Precision::tf32, Precision::fp32).optimizer == 4 * 384);
  model.optimizer = {.kind = OptimizerKind::adamw};
  CHECK(memory_of(Precision::tf32, Precision::fp32).optimizer == 8 * 384);
  CHECK(memory_of(Precision::tf32, Precision::fp32).activations == 0);
}

TEST_CASE("the activations of a chain, worked by hand") {
  // conv, batch norm + relu, global pool, linear on 4 x 8 x 8 with 16 channels, batch 2, fp32. Kept for the
  // backward pass: the convolution's output x (8192 bytes); the activated y is read by the pool alone and
  // ends there. Peak in the forward pass: x and y. Pool output and logits are a few 100 bytes each, rounded
  // up to 256.
  ModelBuilder b("m", {4, 8, 8}, 3);
  int x = b.conv2d("conv", b.input(), 16, square_window(3, 1, 1), false);
  x = b.relu("relu", b.batch_norm("bn", x));
  x = b.flatten("flat", b.global_pool("pool", x));
  b.softmax_cross_entropy("loss", b.linear("fc", x, 3, true));
  const ActivationPlan plan = activation_plan(b.finish(), 2, Precision::fp32);
  CHECK(plan.arena_bytes == 2 * 16 * 64 * 4 + 2 * 16 * 64 * 4 + 256);
  CHECK(plan.input_channels == 4);
  CHECK(plan.input_bytes == 2 * 4 * 64 * 4);
  CHECK(plan.statistics_bytes == 9 * 16 * 4);
}

TEST_CASE("tensors that live at the same time never share memory") {
  const Model model = test::resnet50();
  const auto plan = activation_plan(model, 4, Precision::bf16);
  // What an operator reads and writes at once, by place and size.
  for (const lowering::Operator& op : plan.lowered.operators) {
    CAPTURE(model.layers[static_cast<std::size_t>(op.layer)].name);
    if (op.y == lowering::nowhere) continue;
    const auto bytes = [&](int tensor) {
      return plan.lowered.tensors[static_cast<std::size_t>(tensor)].elements() * 4 * 2;
    };
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == 0) continue;
      const std::int64_t at = op.inputs_at[i];
      CHECK((at + bytes(op.inputs[i]) <= op.y || op.y + bytes(op.output) <= at));
    }
    CHECK(op.y + bytes(op.output) <= plan.arena_bytes);
  }
}

TEST_CASE("activations grow with the batch in proportion, and halve in half precision") {
  const Model model = test::wide_resnet(16, 4);
  const auto arena = [&](std::int64_t batch, Precision precision) {
    return static_cast<double>(activation_plan(model, batch, precision).arena_bytes);
  };
  CHECK(arena(256, Precision::bf16) == approx(2 * arena(128, Precision::bf16)).epsilon(0.01));
  CHECK(arena(128, Precision::fp32) == approx(2 * arena(128, Precision::bf16)).epsilon(0.05));
}

TEST_CASE("capacity decides what fits") {
  const Model model = test::resnet50();
  Profile profile = profile_of(20e9);
  const auto fits = [&](std::int64_t batch) {
    return estimate_memory(model, batch, Precision::bf16, Precision::fp32, model.optimizer, &profile)
        .memory.fits;
  };
  const std::int64_t most = largest_batch(model, Precision::bf16, Precision::fp32, model.optimizer, profile);
  CHECK(most > 100);
  CHECK(fits(most));
  CHECK_FALSE(fits(most + 1));
  CHECK(largest_batch(model, Precision::bf16, Precision::fp32, model.optimizer, profile_of(1.2e9)) == 0);
  CHECK(estimate(model, 1'000'000).memory.fits);  // nobody knows the capacity
}

TEST_CASE("workspace of whole programs stands before that of layers, in between by batch") {
  const Model model = test::tiny_cnn();
  Profile profile = profile_of(80e9);
  for (const auto& [batch, bytes] : {std::pair{8, 1e6}, {16, 3e6}, {64, 3.5e6}}) {
    StepEntry entry;
    entry.model = model.name;
    entry.precision = Precision::bf16;
    entry.batch = batch;
    entry.workspace_bytes = bytes;
    profile.steps.push_back(entry);
  }
  const auto workspace = [&](std::int64_t batch) {
    const MemoryEstimate found =
        estimate_memory(model, batch, Precision::bf16, Precision::fp32, model.optimizer, &profile);
    CHECK(found.workspace_origin == Origin::measured);
    return found.memory.workspace;
  };
  CHECK(workspace(4) == 1e6);
  CHECK(workspace(8) == 1e6);
  CHECK(workspace(12) == 2e6);
  CHECK(workspace(16) == 3e6);
  CHECK(workspace(128) == 3.5e6);
  profile.steps.front().precision = Precision::fp32;
  CHECK(workspace(8) == 3e6);
  profile.steps.resize(1);
  CHECK(estimate_memory(model, 8, Precision::bf16, Precision::fp32, model.optimizer, &profile)
            .workspace_origin == Origin::assumed);
}

TEST_CASE(
    "the peak of a measured step is met at its batch, and what its parts lack is interpolated between two") {
  const Model model = test::tiny_cnn();
  Profile profile = profile_of(80e9);
  const auto peak = [&](std::int64_t batch) {
    return estimate_memory(model, batch, Precision::bf16, Precision::fp32, model.optimizer, &profile)
        .memory.peak;
  };
  std::map<std::int64_t, double> known;
  for (const std::int64_t batch : {8, 16}) {
    StepEntry entry;
    entry.model = model.name;
    entry.precision = Precision::bf16;
    entry.batch = batch;
    entry.workspace_bytes = 1e6;
    profile.steps.push_back(entry);
  }
  for (const std::int64_t batch : {8, 12, 16}) known[batch] = peak(batch);
  for (StepEntry& entry : profile.steps)
    entry.peak_bytes = known[entry.batch] + (entry.batch == 8 ? 5e4 : 1e5);
  CHECK(peak(8) == approx(known[8] + 5e4));
  CHECK(peak(16) == approx(known[16] + 1e5));
  CHECK(peak(12) == approx(known[12] + 7.5e4));
  // A peak far from the sum of the parts holds at its own batch, and says nothing of others on a GPU.
  for (StepEntry& entry : profile.steps) entry.peak_bytes = 1.5 * known[entry.batch];
  CHECK(peak(8) == approx(1.5 * known[8]));
  CHECK(peak(12) == known[12]);
  CHECK(peak(32) > known[16]);
  CHECK(peak(32) < 1.5 * known[16] + 16 * (known[16] - known[8]) / 8);
  // On CPUs operands in other layouts and copies of weights are no part that is known.
  profile.device = "cpu";
  CHECK(peak(8) == approx(1.5 * known[8]));
  CHECK(peak(12) == approx(1.5 * known[12]).epsilon(1e-3));
}

TEST_CASE("the peak at a length between measured ones lies between theirs") {
  const auto reader_of = [](std::int64_t length) {
    ModelBuilder b("reader", {length}, 40);
    b.take_tokens(40, length);
    b.softmax_cross_entropy("loss",
                            b.linear("output", b.embedding("embedding", b.input(), 64, {}), 40, true));
    return b.finish();
  };
  Profile profile = profile_of(80e9);
  for (const std::int64_t length : {20, 60}) {
    for (const std::int64_t batch : {4, 8}) {
      StepEntry entry;
      entry.model = "reader";
      entry.precision = Precision::bf16;
      entry.sequence = length;
      entry.batch = batch;
      entry.workspace_bytes = 1e3 * static_cast<double>(length);
      const Model model = reader_of(length);
      entry.peak_bytes =
          1.02 * estimate_memory(model, batch, Precision::bf16, Precision::fp32, model.optimizer, nullptr)
                     .memory.peak;
      profile.steps.push_back(entry);
    }
  }
  const auto peak = [&](std::int64_t length, std::int64_t batch) {
    const Model model = reader_of(length);
    return estimate_memory(model, batch, Precision::bf16, Precision::fp32, model.optimizer, &profile)
        .memory.peak;
  };
  const auto measured = [&](std::size_t i) { return profile.steps[i].peak_bytes; };
  CHECK(peak(20, 8) == approx(measured(1)));
  CHECK(peak(60, 4) == approx(measured(2)));
  CHECK(peak(40, 8) == approx((measured(1) + measured(3)) / 2).epsilon(1e-3));
  CHECK(peak(30, 4) == approx(0.75 * measured(0) + 0.25 * measured(2)).epsilon(1e-3));
  CHECK(peak(80, 4) > measured(2));  // beyond them: what the activations grow by
}

TEST_CASE("workspace is the measured one of the nearest batch, else assumed and named so") {
  const Model model = test::tiny_cnn();
  CHECK(estimate(model, 8).workspace_origin == Origin::assumed);
  Profile profile = profile_of(80e9);
  for (const auto& [batch, bytes] : {std::pair{8, 1e6}, {16, 5e6}, {16, 4e6}, {32, 9e6}}) {
    OperatorEntry entry;
    entry.context = model.name;
    entry.precision = Precision::bf16;
    entry.batch = batch;
    entry.workspace_bytes = bytes;
    profile.operators.push_back(entry);
  }
  const auto workspace = [&](std::int64_t batch) {
    const auto found =
        estimate_memory(model, batch, Precision::bf16, Precision::fp32, model.optimizer, &profile);
    CHECK(found.workspace_origin == Origin::measured);
    return found.memory.workspace;
  };
  std::int64_t largest = 0;  // a weight's gradient, made aside in fp32
  for (const Parameter& parameter : model.parameters) largest = std::max(largest, parameter.elements);
  const double aside = 4.0 * static_cast<double>(largest);
  CHECK(workspace(8) == 1e6 + aside);
  CHECK(workspace(9) == 5e6 + aside);
  CHECK(workspace(64) == 9e6 + aside);
}

TEST_CASE("parts sum to the peak") {
  const Memory memory = estimate(test::vgg16(), 32).memory;
  CHECK(memory.peak ==
        memory.parameters + memory.gradients + memory.optimizer + memory.activations + memory.workspace);
  CHECK(memory.buckets == 0);
}

TEST_CASE("the peak is that of measured steps") {
  // Peak of the device allocations of a worker, fp32 gradients, SGD with momentum; H100 80 GB, cuDNN 9.14.
  // The search for plans is in it, which may take more than the steps.
  using enum Precision;
  const struct {
    Model model;
    Precision precision;
    std::int64_t batch;
    double measured;
  } rows[] = {{test::resnet50(), bf16, 16, 1137525768},
              {test::resnet50(), bf16, 64, 3423364616},
              {test::resnet50(), bf16, 256, 12564327783},
              {test::resnet50(), tf32, 64, 6214798744},
              {test::resnet50(), tf32, 256, 23883174808},
              {test::vgg16(), bf16, 8, 2633273055},
              {test::vgg16(), bf16, 128, 6772609695},
              {test::vgg16(), tf32, 32, 4989532439},
              {test::vgg16(), tf32, 128, 11053398040},
              {test::wide_resnet(16, 4), bf16, 32, 107804639},
              {test::wide_resnet(16, 4), bf16, 1024, 2240927064},
              {test::wide_resnet(16, 4), tf32, 128, 604983603},
              {test::wide_resnet(28, 10), bf16, 32, 841001151},
              {test::wide_resnet(28, 10), bf16, 512, 5323667655},
              {test::wide_resnet(28, 10), tf32, 64, 1839460312},
              {test::wide_resnet(28, 10), tf32, 512, 10688126424}};
  for (const auto& row : rows) {
    CAPTURE(row.model.name);
    CAPTURE(row.batch);
    CHECK(estimate(row.model, row.batch, row.precision).memory.peak == approx(row.measured).epsilon(0.06));
  }
}
