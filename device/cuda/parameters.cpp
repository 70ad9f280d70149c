#include "device/cuda/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/initial_weights.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::cuda {
namespace {

Scalar scalar_of(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      return Scalar::f32;
    case ElementType::bf16:
      return Scalar::bf16;
    case ElementType::fp16:
      return Scalar::f16;
    case ElementType::fp64:
      break;
  }
  throw Error(ErrorKind::unavailable, "the cuda backend keeps no gradients in fp64");
}

std::size_t size(std::int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}

void copy_to_host(void* to, const void* from, std::int64_t bytes, cudaStream_t stream) {
  FORETRAIN_CUDA(cudaMemcpyAsync(to, from, size(bytes), cudaMemcpyDeviceToHost, stream));
  FORETRAIN_CUDA(cudaStreamSynchronize(stream));
}
void copy_to_device(void* to, const void* from, std::int64_t bytes, cudaStream_t stream) {
  FORETRAIN_CUDA(cudaMemcpyAsync(to, from, size(bytes), cudaMemcpyHostToDevice, stream));
  FORETRAIN_CUDA(cudaStreamSynchronize(stream));
}

}  // namespace

Parameters::Parameters(MemoryAccount& account, const Model& model, const BuildOptions& options,
                       Scalar compute, std::vector<std::int64_t> pixels)
    : account_(account),
      model_(model),
      optimizer_(options.optimizer),
      gradient_type_(scalar_of(options.gradients)),
      offsets_(model.parameters.size()),
      pixels_(std::move(pixels)) {
  for (std::size_t p = model.parameters.size(); p-- > 0;) {
    offsets_[p] = elements_;
    elements_ += (model.parameters[p].elements + alignment - 1) / alignment * alignment;
  }
  const auto allocate = [&](std::int64_t bytes) {
    DeviceMemory memory(account, bytes);
    if (bytes) FORETRAIN_CUDA(cudaMemset(memory.data(), 0, size(bytes)));
    return memory;
  };
  masters_ = allocate(elements_ * 4);
  gradients_ = allocate(elements_ * bytes_of(gradient_type_));
  if (compute == Scalar::bf16) copies_ = allocate(elements_ * 2);
  const bool adam = optimizer_.kind != OptimizerKind::sgd;
  if (adam || optimizer_.momentum != 0) first_ = allocate(elements_ * 4);
  if (adam) second_ = allocate(elements_ * 4);
  if (optimizer_.clip_norm > 0) squares_ = allocate((squares_blocks + 1) * 4);
  scalars_ = allocate(sizeof(UpdateScalars));
  draws_ = allocate(sizeof(std::uint64_t));
  for (const Layer& layer : model.layers) {
    drops_ |= layer.kind == LayerKind::dropout || layer.attention.dropout > 0 || layer.recurrence.dropout > 0;
  }
}

void Parameters::reset_draws() {
  FORETRAIN_CUDA(cudaDeviceSynchronize());
  FORETRAIN_CUDA(cudaMemset(draws_.data(), 0, size(draws_.bytes())));
  FORETRAIN_CUDA(cudaDeviceSynchronize());
}

void* Parameters::computed(int parameter) const {
  if (copies_.bytes() == 0) return master(parameter);
  return copies_.data() + offset(parameter) * 2;
}
void* Parameters::gradient(int parameter) const {
  return gradients_.data() + offset(parameter) * bytes_of(gradient_type_);
}

// Normal weights; batch norms start as the identity.
void Parameters::initialize(std::uint64_t seed, cudaStream_t stream) {
  for (std::size_t p = 0; p < model_.parameters.size(); ++p) {
    const Parameter& parameter = model_.parameters[p];
    float* to = master(static_cast<int>(p));
    if (parameter.shape.size() >= 2) {
      fill_weights(parameter.elements, to, parameter.elements / parameter.shape[0] / pixels_[p], pixels_[p],
                   static_cast<float>(initial_deviation(model_, parameter)), initial_seed(seed, p), stream);
      continue;
    }
    const std::vector<float> values(static_cast<std::size_t>(parameter.elements),
                                    static_cast<float>(initial_constant(model_, p)));
    copy_to_device(to, values.data(), parameter.elements * 4, stream);
  }
  compute_from_masters(stream);
  // Of nothing: so that its kernels are loaded before anybody captures them.
  if (optimizer_.clip_norm > 0)
    sum_of_squares(0, gradients_.data(), gradient_type_, squares_.as<float>() + 1, squares_.as<float>(),
                   stream);
  update_range({0, 0}, {}, nullptr, {}, stream);
  put_scalars({}, scalars_.as<UpdateScalars>(), stream);
}

void Parameters::compute_from_masters(cudaStream_t stream) {
  if (copies_.bytes()) {
    convert_rows(elements_, 1, masters_.data(), Scalar::f32, 1, copies_.data(), Scalar::bf16, 1, stream);
  }
}

UpdateScalars Parameters::scalars(double learning_rate, double gradient_scale) const {
  UpdateScalars made;
  made.learning_rate = static_cast<float>(learning_rate);
  made.gradient_scale = static_cast<float>(gradient_scale);
  if (optimizer_.kind == OptimizerKind::sgd) return made;
  const auto steps = static_cast<double>(updates_);
  made.correction1 = static_cast<float>(1 - std::pow(optimizer_.beta1, steps));
  made.correction2 = static_cast<float>(1 - std::pow(optimizer_.beta2, steps));
  return made;
}

void Parameters::prepare_recorded_update(double learning_rate, double gradient_scale, cudaStream_t stream) {
  ++updates_;
  const UpdateScalars now = scalars(learning_rate, gradient_scale);
  if (on_device_ == now) return;
  put_scalars(now, scalars_.as<UpdateScalars>(), stream);
  on_device_ = now;
}

void Parameters::update(double learning_rate, double gradient_scale, cudaStream_t stream,
                        std::span<const FlatRange> parts) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  FORETRAIN_CUDA(cudaStreamIsCapturing(stream, &capture));
  const bool recorded = capture == cudaStreamCaptureStatusActive;
  if (!recorded) ++updates_;
  const UpdateScalars now = scalars(learning_rate, gradient_scale);
  const UpdateScalars* from_device = recorded ? scalars_.as<UpdateScalars>() : nullptr;
  NormClip clip;
  if (optimizer_.clip_norm > 0) {
    float* sum = squares_.as<float>();
    sum_of_squares(elements_, gradients_.data(), gradient_type_, sum + 1, sum, stream);
    clip = {sum, static_cast<float>(optimizer_.clip_norm)};
  }
  std::int64_t done = 0;  // parts ascend
  for (const FlatRange& part : parts) {
    const std::int64_t first = std::max(done, part.first / alignment * alignment);
    const std::int64_t last = std::min(elements_, (part.last + alignment - 1) / alignment * alignment);
    if (first >= last) continue;
    update_range({first, last}, now, from_device, clip, stream);
    done = last;
  }
}

void Parameters::update_range(FlatRange range, const UpdateScalars& scalars, const UpdateScalars* from_device,
                              const NormClip& clip, cudaStream_t stream) {
  const std::int64_t count = range.last - range.first;
  float* masters = masters_.as<float>() + range.first;
  const void* gradients = gradients_.data() + range.first * bytes_of(gradient_type_);
  const auto moment = [&](const DeviceMemory& memory) {
    return memory.bytes() ? memory.as<float>() + range.first : nullptr;
  };
  void* copy = copies_.bytes() ? copies_.data() + range.first * 2 : nullptr;
  if (optimizer_.kind == OptimizerKind::sgd) {
    const SgdArguments arguments{static_cast<float>(optimizer_.momentum),
                                 static_cast<float>(optimizer_.weight_decay),
                                 optimizer_.nesterov,
                                 clip,
                                 scalars,
                                 from_device};
    sgd_update(count, masters, gradients, gradient_type_, moment(first_), copy, arguments, stream);
    return;
  }
  const AdamArguments arguments{static_cast<float>(optimizer_.beta1),
                                static_cast<float>(optimizer_.beta2),
                                static_cast<float>(optimizer_.epsilon),
                                static_cast<float>(optimizer_.weight_decay),
                                optimizer_.kind == OptimizerKind::adamw,
                                clip,
                                scalars,
                                from_device};
  adam_update(count, masters, gradients, gradient_type_, moment(first_), moment(second_), copy, arguments,
              stream);
}

// Calls visit(index in Parameter::shape's layout, index as stored).
template <typename F>
void Parameters::permute(int parameter, F&& visit) const {
  const Parameter& p = model_.parameters[static_cast<std::size_t>(parameter)];
  const std::int64_t pixels = pixels_[static_cast<std::size_t>(parameter)];
  const std::int64_t out = p.shape.empty() ? 1 : p.shape[0];
  const std::int64_t in = p.elements / out / pixels;
  std::size_t index = 0;
  for (std::int64_t k = 0; k < out; ++k) {
    for (std::int64_t c = 0; c < in; ++c) {
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel, ++index) {
        visit(index, static_cast<std::size_t>((k * pixels + pixel) * in + c));
      }
    }
  }
}

std::vector<float> Parameters::read(int parameter, cudaStream_t stream) const {
  std::vector<float> stored(
      static_cast<std::size_t>(model_.parameters[static_cast<std::size_t>(parameter)].elements));
  copy_to_host(stored.data(), master(parameter), static_cast<std::int64_t>(stored.size()) * 4, stream);
  std::vector<float> values(stored.size());
  permute(parameter, [&](std::size_t natural, std::size_t at) { values[natural] = stored[at]; });
  return values;
}

std::vector<float> Parameters::read_gradient(int parameter, cudaStream_t stream) const {
  const std::int64_t count = model_.parameters[static_cast<std::size_t>(parameter)].elements;
  const DeviceMemory converted(account_, gradient_type_ == Scalar::f32 ? 0 : count * 4);
  const void* from = gradient(parameter);
  if (converted.bytes()) {
    convert_rows(count, 1, from, gradient_type_, 1, converted.data(), Scalar::f32, 1, stream);
    from = converted.data();
  }
  std::vector<float> stored(static_cast<std::size_t>(count));
  copy_to_host(stored.data(), from, count * 4, stream);
  std::vector<float> values(stored.size());
  permute(parameter, [&](std::size_t natural, std::size_t at) { values[natural] = stored[at]; });
  return values;
}

void Parameters::write(int parameter, std::span<const float> values, cudaStream_t stream) {
  const Parameter& p = model_.parameters[static_cast<std::size_t>(parameter)];
  if (static_cast<std::int64_t>(values.size()) != p.elements) {
    throw Error(ErrorKind::input, "parameter " + p.name + " has " + std::to_string(p.elements) +
                                      " elements, not " + std::to_string(values.size()));
  }
  std::vector<float> stored(values.size());
  permute(parameter, [&](std::size_t natural, std::size_t at) { stored[at] = values[natural]; });
  copy_to_device(master(parameter), stored.data(), p.elements * 4, stream);
  if (copies_.bytes()) {
    convert_rows(p.elements, 1, master(parameter), Scalar::f32, 1, computed(parameter), Scalar::bf16, 1,
                 stream);
  }
}

std::uint64_t Parameters::checksum(cudaStream_t stream) const {
  const DeviceMemory sum(account_, sizeof(unsigned long long));
  FORETRAIN_CUDA(cudaMemsetAsync(sum.data(), 0, size(sum.bytes()), stream));
  cuda::checksum(elements_, masters_.as<float>(), sum.as<unsigned long long>(), stream);
  unsigned long long result = 0;
  copy_to_host(&result, sum.data(), sizeof result, stream);
  return result;
}

std::vector<std::byte> Parameters::save(cudaStream_t stream) const {
  std::vector<std::byte> state(sizeof updates_ + size(first_.bytes() + second_.bytes()) + draw_bytes());
  std::memcpy(state.data(), &updates_, sizeof updates_);
  std::byte* to = state.data() + sizeof updates_;
  if (first_.bytes()) copy_to_host(to, first_.data(), first_.bytes(), stream);
  if (second_.bytes()) copy_to_host(to + first_.bytes(), second_.data(), second_.bytes(), stream);
  if (drops_) copy_to_host(to + first_.bytes() + second_.bytes(), draws_.data(), draws_.bytes(), stream);
  return state;
}

std::span<const std::byte> Parameters::load(std::span<const std::byte> state, cudaStream_t stream) {
  const std::size_t needed = sizeof updates_ + size(first_.bytes() + second_.bytes()) + draw_bytes();
  if (state.size() < needed) {
    throw Error(ErrorKind::input, "the saved state is too short for model " + model_.name);
  }
  std::memcpy(&updates_, state.data(), sizeof updates_);
  const std::byte* from = state.data() + sizeof updates_;
  if (first_.bytes()) copy_to_device(first_.data(), from, first_.bytes(), stream);
  if (second_.bytes()) copy_to_device(second_.data(), from + first_.bytes(), second_.bytes(), stream);
  if (drops_) copy_to_device(draws_.data(), from + first_.bytes() + second_.bytes(), draws_.bytes(), stream);
  return state.subspan(needed);
}

}  // namespace foretrain::device::cuda
