// Parameters, gradients and optimizer state in flat buffers, in reverse registration order. Weights of
// conv2d, and of a linear that reads an image, lie channels-last: out, height, width, in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/owners.hpp"

namespace foretrain::device::cuda {

class Parameters {
 public:
  // Each parameter starts at a multiple of this many elements: 256 bytes in bf16, as the libraries like it.
  static constexpr std::int64_t alignment = 128;

  // pixels[p]: height times width of a weight that lies channels-last, else 1.
  Parameters(MemoryAccount& account, const Model& model, const BuildOptions& options, Scalar compute,
             std::vector<std::int64_t> pixels);

  std::int64_t offset(int parameter) const { return offsets_[static_cast<std::size_t>(parameter)]; }
  std::int64_t elements() const { return elements_; }  // of the flat buffers, gaps included
  float* master(int parameter) const { return masters_.as<float>() + offset(parameter); }
  void* computed(int parameter) const;  // in the compute precision
  void* gradient(int parameter) const;
  GradientSink sink(int parameter) const { return {gradient(parameter), gradient_type_}; }
  Scalar gradient_type() const { return gradient_type_; }
  Buffer gradients() const { return {gradients_.data(), gradients_.bytes()}; }
  Buffer masters() const { return {masters_.data(), masters_.bytes()}; }
  void compute_from_masters(cudaStream_t stream);  // makes the weights in the compute precision anew

  void initialize(std::uint64_t seed, cudaStream_t stream);
  // The draws of dropout's masks so far, on the device.
  std::uint64_t* draws() const { return draws_.as<std::uint64_t>(); }
  void reset_draws();
  // For a recorded update, which takes what differs from one to the next from the device's memory: counts it
  // and puts that there, where it has changed.
  void prepare_recorded_update(double learning_rate, double gradient_scale, cudaStream_t stream);
  // Those that lie in `parts`, which are widened to whole words; an update for the optimizer's count.
  void update(double learning_rate, double gradient_scale, cudaStream_t stream,
              std::span<const FlatRange> parts);
  int update_launches() const { return optimizer_.clip_norm > 0 ? 3 : 1; }

  // On the host, in the layout of Parameter::shape; wait for the stream.
  std::vector<float> read(int parameter, cudaStream_t stream) const;
  std::vector<float> read_gradient(int parameter, cudaStream_t stream) const;
  void write(int parameter, std::span<const float> values, cudaStream_t stream);
  std::uint64_t checksum(cudaStream_t stream) const;

  // Momentum, second moments, the number of updates and of dropout's draws, as bytes on the host.
  std::vector<std::byte> save(cudaStream_t stream) const;
  // Returns what it did not need. Error (input) where it is too short.
  std::span<const std::byte> load(std::span<const std::byte> state, cudaStream_t stream);

  std::int64_t parameter_bytes() const { return masters_.bytes() + copies_.bytes(); }
  std::int64_t optimizer_bytes() const { return first_.bytes() + second_.bytes(); }

 private:
  UpdateScalars scalars(double learning_rate, double gradient_scale) const;
  void update_range(FlatRange range, const UpdateScalars& scalars, const UpdateScalars* from_device,
                    const NormClip& clip, cudaStream_t stream);
  template <typename F>
  void permute(int parameter, F&& visit) const;

  std::size_t draw_bytes() const { return drops_ ? sizeof(std::uint64_t) : 0; }

  MemoryAccount& account_;
  const Model& model_;
  Optimizer optimizer_;
  Scalar gradient_type_;
  std::vector<std::int64_t> offsets_, pixels_;
  std::int64_t elements_ = 0, updates_ = 0;
  DeviceMemory masters_, copies_, gradients_, first_, second_, squares_, scalars_, draws_;
  std::optional<UpdateScalars> on_device_;  // what lies in scalars_
  bool drops_ = false;                      // whether the model draws masks
};

}  // namespace foretrain::device::cuda
