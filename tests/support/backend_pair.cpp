#include "tests/support/backend_pair.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "device/registry.hpp"

namespace foretrain::test {

using namespace foretrain::device;

namespace {

std::vector<float> normal(std::size_t count, double deviation, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> draw(0, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(draw(engine));
  return values;
}

bool reads_input(const Model& model, int layer) {
  const int from = model.layers[static_cast<std::size_t>(layer)].inputs[0];
  return from == 0 || (model.layers[static_cast<std::size_t>(from)].kind == LayerKind::flatten &&
                       reads_input(model, from));
}

}  // namespace

void prepare(Program& program, const Model& model, std::int64_t batch) {
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const Parameter& parameter = model.parameters[p];
    const double inputs = static_cast<double>(parameter.elements) / static_cast<double>(parameter.shape[0]);
    const bool weight = parameter.shape.size() > 1;
    const bool exact = model.tokens == 0 && reads_input(model, parameter.layer);
    const double deviation = !weight ? 0.2 : exact ? 0.6 : std::sqrt(2 / inputs);
    auto values =
        normal(static_cast<std::size_t>(parameter.elements), deviation, static_cast<unsigned>(p) + 1);
    const LayerKind kind = model.layers[static_cast<std::size_t>(parameter.layer)].kind;
    const bool is_norm =
        kind == LayerKind::batch_norm || kind == LayerKind::layer_norm || kind == LayerKind::rms_norm;
    const bool scale = is_norm && parameter.name.ends_with("weight");
    for (float& value : values) {
      if (scale) value += 1;
      const float grain = exact ? (weight ? 1 : 16) : 64;
      value = std::round(value * grain) / grain;
      if (exact && weight) value = std::clamp(value, -1.0f, 1.0f);
    }
    program.write_parameter(static_cast<int>(p), values);
  }
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < batch * model.targets(); ++i) {
    // Some positions have no label.
    const bool none = model.tokens > 0 && i % 5 == 3;
    labels.push_back(none ? -1 : static_cast<std::int32_t>((i * 7) % model.classes));
  }
  if (model.tokens > 0) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < batch * element_count(model.input); ++i)
      tokens.push_back(static_cast<std::int32_t>((i * i + 3 * i) % model.tokens));
    program.set_tokens(tokens, labels);
    return;
  }
  auto samples = normal(static_cast<std::size_t>(batch * element_count(model.input)), 1.5, 99);
  for (float& value : samples) value = std::clamp(std::round(value), -3.0f, 3.0f) / 16;
  program.set_input(samples, labels);
}

void compare_initial_weights(Backend& backend, const Model& model, double bound) {
  CAPTURE(model.name);
  BuildOptions options = options_of(model, Precision::fp32);
  options.seed = 7;
  const auto worker = backend.make_worker(0), host = open_backend("reference").make_worker(0);
  const auto program = worker->build(model, options), reference = host->build(model, options);
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    CAPTURE(model.parameters[p].name);
    const int index = static_cast<int>(p);
    CHECK(distance(program->read_parameter(index), reference->read_parameter(index)) <= bound);
  }
}

void step(Program& program, bool update) {
  program.prepare_weights();
  program.zero_gradients();
  for (const WorkItem& item : program.forward_items()) program.issue(item);
  for (const WorkItem& item : program.backward_items()) program.issue(item);
  if (update) program.update();
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

Pair build(Backend& backend, const Model& model, BuildOptions options) {
  Pair pair;
  pair.worker = backend.make_worker(0);
  pair.reference_worker = open_backend("reference").make_worker(0);
  pair.program = pair.worker->build(model, options);
  options.precision = Precision::fp32;
  options.gradients = ElementType::fp32;
  pair.reference = pair.reference_worker->build(model, options);
  prepare(*pair.program, model, options.batch);
  prepare(*pair.reference, model, options.batch);
  return pair;
}

BuildOptions options_of(const Model& model, Precision precision) {
  BuildOptions options;
  options.batch = 8;
  options.precision = precision;
  options.optimizer = model.optimizer;
  return options;
}

void compare_gradients(Backend& backend, const Model& model, const BuildOptions& options, double tolerance) {
  CAPTURE(model.name);
  CAPTURE(std::string(name_of(options.precision)));
  const Pair pair = build(backend, model, options);
  step(*pair.program, false);
  step(*pair.reference, false);
  const double loss = pair.reference->loss();
  CHECK(std::abs(pair.program->loss() - loss) <= tolerance * loss);
  double worst = 0;
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    CAPTURE(model.parameters[p].name);
    const int index = static_cast<int>(p);
    const double error = distance(pair.program->read_gradient(index), pair.reference->read_gradient(index));
    CHECK(error <= tolerance);
    worst = std::max(worst, std::isnan(error) ? 1e9 : error);
  }
  std::fprintf(stderr, "%s: gradients %-22s %-5s worst %.1e\n", backend.name().c_str(), model.name.c_str(),
               name_of(options.precision), worst);
}

}  // namespace foretrain::test
