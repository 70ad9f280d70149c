// The same training on a processor and on a GPU, step for step (validation/losses, docs/cpu-backend.md).
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "execute/run_record.hpp"
#include "execute/run_record_json.hpp"

using namespace foretrain;

namespace {

struct Distance {
  double relative = 0, absolute = 0;  // the greatest of a step
};

std::vector<double> losses(const char* backend, const std::string& model) {
  Diagnostics diagnostics;
  const auto path =
      std::filesystem::path(FORETRAIN_SOURCE_DIR) / "validation/losses" / backend / (model + ".json.gz");
  const auto record = read_run_record(path, diagnostics);
  REQUIRE(record.has_value());
  CHECK(record->precision == Precision::fp32);
  REQUIRE(record->ranks.size() == 1);
  return record->ranks[0].loss;
}

Distance distance(const std::string& model, std::size_t steps) {
  const std::vector<double> cpu = losses("cpu", model), gpu = losses("h200", model);
  REQUIRE(cpu.size() == 64);
  REQUIRE(gpu.size() == 64);
  Distance most;
  for (std::size_t i = 0; i < steps; ++i) {
    most.absolute = std::max(most.absolute, std::abs(cpu[i] - gpu[i]));
    most.relative = std::max(most.relative, std::abs(cpu[i] / gpu[i] - 1));
  }
  return most;
}

}  // namespace

TEST_CASE("a training on a processor has the losses of the same training on a GPU") {
  CHECK(distance("char-rnn", 64).relative < 2e-7);
  CHECK(distance("gpt2-small", 16).relative < 1e-6);
  CHECK(distance("gpt2-small", 64).relative < 5e-6);
  // Batch norms carry each rounding on: it grows until the loss is small.
  CHECK(distance("wrn-16-4", 8).relative < 1e-4);
  CHECK(distance("wrn-16-4", 16).relative < 1e-3);
  CHECK(distance("wrn-16-4", 64).absolute < 7e-3);
  // They did learn something.
  CHECK(losses("h200", "wrn-16-4").back() < 0.01);
  CHECK(losses("cpu", "wrn-16-4").front() > 2);
}
