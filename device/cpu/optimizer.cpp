#include "device/cpu/optimizer.hpp"

#include <cmath>
#include <vector>

#include "device/cpu/loops.hpp"
#include "device/cpu/vector_clones.hpp"

namespace foretrain::device::cpu {
namespace {

struct SgdRates {
  float scale, decay, momentum, rate;
};

FORETRAIN_VECTOR_CLONES void plain_sgd(const SgdRates& r, float* __restrict w, const float* __restrict g,
                                       std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) w[i] -= r.rate * (g[i] * r.scale + r.decay * w[i]);
}

FORETRAIN_VECTOR_CLONES void momentum_sgd(const SgdRates& r, float* __restrict w, const float* __restrict g,
                                          float* __restrict v, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    v[i] = r.momentum * v[i] + (g[i] * r.scale + r.decay * w[i]);
    w[i] -= r.rate * v[i];
  }
}

FORETRAIN_VECTOR_CLONES void nesterov_sgd(const SgdRates& r, float* __restrict w, const float* __restrict g,
                                          float* __restrict v, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float slope = g[i] * r.scale + r.decay * w[i];
    v[i] = r.momentum * v[i] + slope;
    w[i] -= r.rate * (slope + r.momentum * v[i]);
  }
}

struct AdamRates {
  float scale, decay, shrink, beta1, beta2, rate, deviation, epsilon;
};

// decay: added to the gradient (Adam); shrink: 1 - rate x decay of the weights themselves (AdamW).
FORETRAIN_VECTOR_CLONES void adam(const AdamRates& r, float* __restrict w, const float* __restrict g,
                                  float* __restrict m, float* __restrict v, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float slope = g[i] * r.scale + r.decay * w[i];
    m[i] = r.beta1 * m[i] + (1 - r.beta1) * slope;
    v[i] = r.beta2 * v[i] + (1 - r.beta2) * slope * slope;
    w[i] = r.shrink * w[i] - r.rate * m[i] / (std::sqrt(v[i]) * r.deviation + r.epsilon);
  }
}

}  // namespace

void update_weights(const Optimizer& o, double scale, double step, const FlatParameters& p) {
  const auto f = [](double value) { return static_cast<float>(value); };
  if (o.kind == OptimizerKind::sgd) {
    const SgdRates rates{f(scale), f(o.weight_decay), f(o.momentum), f(o.learning_rate)};
    return parallel(p.count, [&](std::int64_t first, std::int64_t last) {
      const std::int64_t n = last - first;
      if (p.first == nullptr) return plain_sgd(rates, p.weights + first, p.gradients + first, n);
      (o.nesterov ? nesterov_sgd : momentum_sgd)(rates, p.weights + first, p.gradients + first,
                                                 p.first + first, n);
    });
  }
  const bool apart = o.kind == OptimizerKind::adamw;
  const AdamRates rates{
      .scale = f(scale),
      .decay = apart ? 0.0f : f(o.weight_decay),
      .shrink = apart ? f(1 - o.learning_rate * o.weight_decay) : 1.0f,
      .beta1 = f(o.beta1),
      .beta2 = f(o.beta2),
      .rate = f(o.learning_rate / (1 - std::pow(o.beta1, step))),
      .deviation = f(1 / std::sqrt(1 - std::pow(o.beta2, step))),
      .epsilon = f(o.epsilon),
  };
  parallel(p.count, [&](std::int64_t first, std::int64_t last) {
    adam(rates, p.weights + first, p.gradients + first, p.first + first, p.second + first, last - first);
  });
}

double sum_of_squares(const float* values, std::int64_t count) {
  constexpr std::int64_t block = 1 << 14;
  std::vector<double> sums(static_cast<std::size_t>((count + block - 1) / block));
  parallel_rows(static_cast<std::int64_t>(sums.size()), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t b = first; b < last; ++b) {
      double sum = 0;
      for (std::int64_t i = b * block; i < std::min(count, (b + 1) * block); ++i)
        sum += double{values[i]} * values[i];
      sums[static_cast<std::size_t>(b)] = sum;
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace foretrain::device::cpu
