// How noisy gradients are: the simple noise scale B = tr(S) / |G|^2 of McCandlish et al. (2018, appendix
// A.1), the batch beyond which larger ones save few updates. From the squared norms of gradients over two
// batch sizes:
//   |G|^2 = (B2 |g2|^2 - B1 |g1|^2) / (B2 - B1),   tr(S) = (|g1|^2 - |g2|^2) / (1/B1 - 1/B2)
// Both are unbiased; their ratio is taken of the means over all looks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "execute/run_record.hpp"
#include "sim/training/model.hpp"

namespace foretrain {

NoiseLook noise_look(double small_squared, double small_batch, double big_squared, double big_batch);

// Forward and backward passes over `batches` batches, each set by `next`: the small batch is each of them,
// the big one all together. Weights stay as they are; gradients and running statistics do not. Drains the
// device.
NoiseLook look_at_noise(device::Worker& worker, device::Program& program, const Model& model,
                        std::int64_t batch, int batches, const std::function<void(int)>& next);

// With a 90 % interval by jackknife where there are several looks; none where the looks see no gradient in
// their noise.
struct NoiseScale {
  double scale = 0, low = 0, high = 0;  // samples
};
std::optional<NoiseScale> noise_scale(std::span<const NoiseLook> looks);

}  // namespace foretrain
