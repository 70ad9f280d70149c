// Programs of a backend held against the double-precision reference.
#pragma once

#include <memory>
#include <vector>

#include "device/backend.hpp"

namespace foretrain::test {

// The same weights and batch for every backend. Samples are small multiples of 1/16, weights of the layers
// that read them are -1, 0 or 1: their outputs are exact in bf16. The other weights are exact as well.
void prepare(device::Program& program, const Model& model, std::int64_t batch);
void step(device::Program& program, bool update);
double distance(const std::vector<float>& a, const std::vector<float>& b);  // norm of a - b over that of b

struct Pair {
  std::unique_ptr<device::Worker> worker, reference_worker;
  std::unique_ptr<device::Program> program, reference;
};
Pair build(device::Backend& backend, const Model& model, device::BuildOptions options);
device::BuildOptions options_of(const Model& model, Precision precision);  // a batch of 8

// Of a new program against the reference's: norm of the difference over that of the latter.
void compare_initial_weights(device::Backend& backend, const Model& model, double bound);

// Checks the loss and each parameter's gradient, and prints the worst.
void compare_gradients(device::Backend& backend, const Model& model, const device::BuildOptions& options,
                       double tolerance);

}  // namespace foretrain::test
