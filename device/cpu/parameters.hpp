// What programs of one model that differ in their batch have in common: weights, gradients, optimizer state,
// running statistics.
#pragma once

#include <span>
#include <vector>

#include "device/backend.hpp"
#include "device/cpu/memory.hpp"

namespace foretrain::device::cpu {

struct RunningStatistics {
  std::vector<float> mean, variance;
};

// Flat and fp32. Parameters lie in reverse registration order, each from a multiple of 16 elements on; the
// gaps hold zeros.
class Parameters {
 public:
  Parameters(const Model& model, const BuildOptions& options, const std::shared_ptr<MemoryCount>& count);

  std::int64_t elements() const { return elements_; }
  std::int64_t offset(int parameter) const { return offsets_.at(static_cast<std::size_t>(parameter)); }
  float* weight(int parameter) const { return weights_.as() + offset(parameter); }
  float* gradient(int parameter) const { return gradients_.as() + offset(parameter); }
  float* weights() const { return weights_.as(); }
  float* gradients() const { return gradients_.as(); }
  std::vector<RunningStatistics>& statistics() { return statistics_; }  // by layer
  // Of dropout's masks: anew with every input and every update.
  double& draw() { return draw_; }
  std::int64_t state_bytes() const { return first_.bytes() + second_.bytes(); }

  // By the calling stream's team. Gradients are multiplied by `scale` first, and clipped to
  // Optimizer::clip_norm by their norm over the parts.
  void update(std::span<const FlatRange> parts, double learning_rate, double scale);

  // Counters, moments, running statistics.
  std::vector<std::byte> save() const;
  void load(std::span<const std::byte> state);
  std::uint64_t checksum() const;

 private:
  template <typename Visit>
  void each_state(const Visit& visit) const;

  std::vector<std::int64_t> offsets_, counts_;
  std::int64_t elements_ = 0;
  Optimizer optimizer_;
  Block weights_, gradients_, first_, second_;
  std::vector<RunningStatistics> statistics_;
  double step_ = 0, draw_ = 0;
};

}  // namespace foretrain::device::cpu
