#include "device/cpu/parameters.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "device/cpu/optimizer.hpp"
#include "device/initial_weights.hpp"

namespace foretrain::device::cpu {
namespace {

constexpr std::int64_t alignment = 16;  // elements: a line of the cache, and a vector

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

Parameters::Parameters(const Model& model, const BuildOptions& options,
                       const std::shared_ptr<MemoryCount>& count)
    : optimizer_(options.optimizer) {
  offsets_.resize(model.parameters.size());
  for (std::size_t p = model.parameters.size(); p-- > 0;) {
    offsets_[p] = elements_;
    elements_ += (model.parameters[p].elements + alignment - 1) / alignment * alignment;
  }
  const std::int64_t bytes = elements_ * static_cast<std::int64_t>(sizeof(float));
  weights_ = Block(bytes, count);
  gradients_ = Block(bytes, count);
  const bool is_sgd = optimizer_.kind == OptimizerKind::sgd;
  if (!is_sgd || optimizer_.momentum != 0) first_ = Block(bytes, count);
  if (!is_sgd) second_ = Block(bytes, count);
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const Parameter& parameter = model.parameters[p];
    counts_.push_back(parameter.elements);
    float* values = weights_.as() + offsets_[p];
    const double constant = initial_constant(model, p), deviation = initial_deviation(model, parameter);
    for (std::int64_t i = 0; i < parameter.elements; ++i) {
      values[i] = parameter.shape.size() <= 1
                      ? static_cast<float>(constant)
                      : static_cast<float>(deviation) * initial_normal(options.seed, p, i);
    }
  }
  statistics_.resize(model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (model.layers[i].kind != LayerKind::batch_norm) continue;
    statistics_[i].mean.assign(at(model.layers[i].output[0]), 0.0f);
    statistics_[i].variance.assign(at(model.layers[i].output[0]), 1.0f);
  }
}

void Parameters::update(std::span<const FlatRange> parts, double learning_rate, double scale) {
  step_ += 1;
  draw_ += 1;
  if (optimizer_.clip_norm > 0) {
    double squares = 0;
    for (const FlatRange& part : parts)
      squares += sum_of_squares(gradients_.as() + part.first, part.last - part.first);
    // As PyTorch's clip_grad_norm_.
    scale *= std::min(1.0, optimizer_.clip_norm / (std::abs(scale) * std::sqrt(squares) + 1e-6));
  }
  Optimizer now = optimizer_;
  now.learning_rate = learning_rate;
  for (const FlatRange& part : parts) {
    update_weights(now, scale, step_,
                   {.weights = weights_.as() + part.first,
                    .gradients = gradients_.as() + part.first,
                    .first = first_.bytes() > 0 ? first_.as() + part.first : nullptr,
                    .second = second_.bytes() > 0 ? second_.as() + part.first : nullptr,
                    .count = part.last - part.first});
  }
}

// Visits (address, bytes) of all that save() holds.
template <typename Visit>
void Parameters::each_state(const Visit& visit) const {
  for (const double* counter : {&step_, &draw_})
    visit(reinterpret_cast<std::byte*>(const_cast<double*>(counter)), sizeof *counter);
  for (const Block* block : {&first_, &second_})
    if (block->bytes() > 0) visit(block->as<std::byte>(), at(block->bytes()));
  for (const RunningStatistics& each : statistics_)
    for (const std::vector<float>* values : {&each.mean, &each.variance})
      if (!values->empty())
        visit(reinterpret_cast<std::byte*>(const_cast<float*>(values->data())),
              values->size() * sizeof(float));
}

std::vector<std::byte> Parameters::save() const {
  std::size_t size = 0;
  each_state([&size](const std::byte*, std::size_t bytes) { size += bytes; });
  std::vector<std::byte> state(size);
  std::byte* to = state.data();
  each_state([&to](const std::byte* data, std::size_t bytes) {
    std::memcpy(to, data, bytes);
    to += bytes;
  });
  return state;
}

void Parameters::load(std::span<const std::byte> state) {
  std::size_t size = 0;
  each_state([&size](const std::byte*, std::size_t bytes) { size += bytes; });
  if (state.size() != size)
    throw Error(ErrorKind::failure, "load_state: a state of " + std::to_string(state.size()) +
                                        " bytes is none of this model and optimizer, which have " +
                                        std::to_string(size));
  const std::byte* from = state.data();
  each_state([&from](std::byte* data, std::size_t bytes) {
    std::memcpy(data, from, bytes);
    from += bytes;
  });
}

// FNV-1a over the bits of all parameters in registration order.
std::uint64_t Parameters::checksum() const {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::size_t p = 0; p < offsets_.size(); ++p) {
    const float* values = weights_.as() + offsets_[p];
    for (std::int64_t i = 0; i < counts_[p]; ++i)
      hash = (hash ^ std::bit_cast<std::uint32_t>(values[i])) * 0x100000001b3;
  }
  return hash;
}

}  // namespace foretrain::device::cpu
