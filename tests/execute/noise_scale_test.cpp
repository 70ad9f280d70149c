#include "execute/noise_scale.hpp"

#include <doctest/doctest.h>

#include "device/reference/backend.hpp"
#include "execute/run_session.hpp"
#include "sim/base/random.hpp"
#include "sim/training/model_builder.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"
#include "tests/support/scenarios.hpp"

using namespace foretrain;
using foretrain::test::approx;

TEST_CASE("two norms tell gradient and noise apart: the expectations invert") {
  // E|g_B|^2 = |G|^2 + tr(S)/B: with |G|^2 = 3, tr(S) = 40 it is 13 at a batch of 4, 5 at 20.
  const NoiseLook look = noise_look(13, 4, 5, 20);
  CHECK(look.gradient_squared == approx(3));
  CHECK(look.trace == approx(40));
}

TEST_CASE("a scale is the ratio of means, its interval holds it") {
  const std::vector<NoiseLook> looks = {{1, 2, 30}, {2, 4, 50}, {3, 3, 40}, {4, 3, 44}};
  const auto noise = noise_scale(looks);
  REQUIRE(noise);
  CHECK(noise->scale == approx(164.0 / 12));
  CHECK(noise->low < noise->scale);
  CHECK(noise->high > noise->scale);
  CHECK(noise->high < 1.5 * noise->scale);
  CHECK_FALSE(noise_scale(std::vector<NoiseLook>{{1, -1, 5}, {2, 0.5, 5}}));
  CHECK_FALSE(noise_scale({}));
}

TEST_CASE("a problem with known noise") {
  // Softmax regression at zero weights, every label class 0, samples x = m + s e with e normal in d
  // dimensions: the gradient of a sample is r (x, 1) with r = p - e0, so that with q = |r|^2 = 1 - 1/C
  //   |G|^2 = q (|m|^2 + 1),  tr(S) = q s^2 d,  B = s^2 d / (|m|^2 + 1).
  ModelBuilder builder("softmax-regression", {1, 4, 4}, 3);
  const int logits = builder.linear("fc", builder.flatten("flatten", builder.input()), 3, true);
  builder.softmax_cross_entropy("loss", logits);
  const Model model = builder.finish();
  const auto backend = device::reference::make_backend();
  const auto worker = backend->make_worker(0);
  device::BuildOptions build;
  constexpr std::int64_t batch = 16;
  build.batch = batch;
  build.optimizer = model.optimizer;
  const auto program = worker->build(model, build);
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const std::vector<float> zeros(static_cast<std::size_t>(model.parameters[p].elements));
    program->write_parameter(static_cast<int>(p), zeros);
  }
  const std::int64_t d = element_count(model.input);
  const double m = 0.5, s = 2, c = model.classes;
  RandomStream random(7, {0});
  std::vector<NoiseLook> looks;
  for (int look = 0; look < 40; ++look) {
    looks.push_back(look_at_noise(*worker, *program, model, batch, 8, [&](int) {
      std::vector<float> samples;
      for (std::int64_t i = 0; i < batch * d; ++i)
        samples.push_back(static_cast<float>(m + s * random.normal()));
      program->set_input(samples, std::vector<std::int32_t>(batch, 0));
    }));
  }
  double gradient = 0, trace = 0;
  for (const NoiseLook& look : looks) {
    gradient += look.gradient_squared / 40;
    trace += look.trace / 40;
  }
  const double q = 1 - 1 / c, squared = m * m * static_cast<double>(d);
  CHECK(gradient == approx(q * (squared + 1)).epsilon(0.05));
  CHECK(trace == approx(q * s * s * static_cast<double>(d)).epsilon(0.03));
  const auto noise = noise_scale(looks);
  REQUIRE(noise);
  const double known = s * s * static_cast<double>(d) / (squared + 1);
  CHECK(noise->low < known);
  CHECK(noise->high > known);
  CHECK(noise->high < 1.2 * noise->low);
}

TEST_CASE("looking at the noise leaves no trace in training, and all ranks say the same") {
  const auto run = [](int every) {
    const Scenario scenario = test::made_scenario(test::tiny_cnn(), StrategyKind::ddp, 2, 4);
    const auto backend = device::reference::make_backend();
    RunSession session(*backend, LaunchEnvironment{}, [](const char*) -> const char* { return nullptr; });
    RunOptions options;
    options.rank.length.warmup = 1;
    options.rank.length.steps = 6;
    options.rank.data = make_learnable_data(*scenario.model, 5);
    options.rank.noise_every = every;
    RunRecord record;
    session.run(scenario, options, {}, record);
    return record;
  };
  const RunRecord without = run(0), with = run(2);
  CHECK(without.noise_looks.empty());
  REQUIRE(with.noise_looks.size() == 3);
  CHECK(with.noise_looks[2].update == 6);
  CHECK(with.noise_looks[0].trace > 0);
  CHECK(with.ranks[0].checksum == without.ranks[0].checksum);
  CHECK(with.ranks[0].step.size() == 6);

  const Scenario scenario = test::made_scenario(test::tiny_cnn(), StrategyKind::ddp, 1, 4);
  const auto backend = device::reference::make_backend();
  RunSession session(*backend, LaunchEnvironment{}, [](const char*) -> const char* { return nullptr; });
  RunOptions options;
  options.rank.noise_every = 1;
  RunRecord record;
  CHECK_THROWS_WITH_AS(session.run(scenario, options, {}, record), doctest::Contains("needs data"), Error);
}
