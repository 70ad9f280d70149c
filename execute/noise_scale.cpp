#include "execute/noise_scale.hpp"

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

struct Sums {
  double gradient = 0, trace = 0;
};

double squared_norm(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

}  // namespace

NoiseLook noise_look(double small_squared, double small_batch, double big_squared, double big_batch) {
  NoiseLook out;
  out.gradient_squared = (big_batch * big_squared - small_batch * small_squared) / (big_batch - small_batch);
  out.trace = (small_squared - big_squared) / (1 / small_batch - 1 / big_batch);
  return out;
}

NoiseLook look_at_noise(device::Worker& worker, device::Program& program, const Model& model,
                        std::int64_t batch, int batches, const std::function<void(int)>& next) {
  std::vector<std::vector<double>> sums(model.parameters.size());
  double small = 0;
  program.prepare_weights();
  for (int i = 0; i < batches; ++i) {
    next(i);
    program.zero_gradients();
    for (const device::WorkItem& item : program.forward_items()) program.issue(item);
    for (const device::WorkItem& item : program.backward_items()) program.issue(item);
    worker.synchronize();
    for (std::size_t p = 0; p < sums.size(); ++p) {
      const std::vector<float> gradient = program.read_gradient(static_cast<int>(p));
      sums[p].resize(gradient.size());
      for (std::size_t k = 0; k < gradient.size(); ++k) {
        const auto value = static_cast<double>(gradient[k]);
        small += value * value / batches;
        sums[p][k] += value / batches;
      }
    }
  }
  double big = 0;
  for (const auto& sum : sums) big += squared_norm(sum);
  const auto size = static_cast<double>(batch);
  return noise_look(small, size, big, size * batches);
}

std::optional<NoiseScale> noise_scale(std::span<const NoiseLook> looks) {
  Sums all;
  for (const NoiseLook& look : looks) {
    all.gradient += look.gradient_squared;
    all.trace += look.trace;
  }
  if (looks.empty() || all.gradient <= 0 || all.trace <= 0) return std::nullopt;
  NoiseScale out;
  out.scale = out.low = out.high = all.trace / all.gradient;
  const auto count = static_cast<double>(looks.size());
  if (looks.size() < 2) return out;
  // In the logarithm, for a ratio is never negative.
  double sum = 0;
  for (const NoiseLook& look : looks) {
    const double gradient = all.gradient - look.gradient_squared, trace = all.trace - look.trace;
    if (gradient <= 0 || trace <= 0) return std::nullopt;  // one look carries it all
    sum += std::pow(std::log(trace / gradient / out.scale), 2);
  }
  constexpr double z95 = 1.6448536269514722;
  const double factor = std::exp(z95 * std::sqrt(sum * (count - 1) / count));
  out.low /= factor;
  out.high *= factor;
  return out;
}

}  // namespace foretrain
