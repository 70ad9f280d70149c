// batch_norm with the addition and ReLU fused into it.
#include "device/cuda/operators.hpp"

namespace foretrain::device::cuda {
namespace {

class BatchNormOperator : public Runnable {
 public:
  BatchNormOperator(const Build& build, const Operator& op)
      : build_(build), op_(op), differentiable_(build.tensor(op.inputs[0]).differentiable) {
    const Layer& layer = build.layer(op);
    const Tensor& out = build.tensor(op.output);
    shape_ = {build.options.batch * out.pixels(), out.channels, static_cast<float>(layer.epsilon),
              static_cast<float>(layer.momentum)};
    constexpr std::int64_t arrays = 9;
    channels_ = DeviceMemory(build.context.account, arrays * out.channels * 4);
    float* array = channels_.as<float>();
    const auto next = [&] { return std::exchange(array, array + out.channels); };
    state_.running_mean = next();
    state_.running_variance = next();
    state_.mean = next();
    state_.inverse_deviation = next();
    state_.scale = next();
    state_.shift = next();
    state_.a = next();
    state_.b = next();
    state_.c = next();
    state_.gamma = build.parameters.master(layer.parameters[0]);
    state_.beta = build.parameters.master(layer.parameters[1]);
    gradient_ = {build.at_or_null(op.dy),
                 build.at_or_null(op.dy2),
                 build.at(op.x),
                 !op.relu           ? ReluMask::none
                 : op.residual >= 0 ? ReluMask::stored
                                    : ReluMask::recompute,
                 mask(),
                 build.at_or_null(op.g),
                 build.parameters.sink(layer.parameters[0]),
                 build.parameters.sink(layer.parameters[1])};
  }

  bool has(Pass pass) const override { return pass != Pass::backward_data || differentiable_; }

  void run(Pass pass) override {
    const Build& b = build_;
    const cudaStream_t stream = b.context.compute;
    switch (pass) {
      case Pass::forward:
        if (op_.sum_of[0] >= 0) {
          batch_norm_statistics(b.type, shape_, b.at(op_.sum_at[0]), b.at(op_.sum_at[1]), b.at(op_.x), state_,
                                b.reduction, stream);
        } else {
          batch_norm_statistics(b.type, shape_, b.at(op_.x), nullptr, nullptr, state_, b.reduction, stream);
        }
        batch_norm_apply(b.type, shape_, b.at(op_.x), op_.residual >= 0 ? b.at(op_.residual_at) : nullptr,
                         op_.relu, b.at(op_.y), mask(), state_, stream);
        break;
      case Pass::backward_weights:
        run_sums(b, op_);
        batch_norm_backward_reduce(b.type, shape_, gradient_, state_, b.reduction, stream);
        break;
      case Pass::backward_data: {
        const bool masked = gradient_.g != nullptr;
        batch_norm_backward_data(b.type, shape_, masked ? gradient_.g : gradient_.dy, b.at(op_.x),
                                 masked ? ReluMask::none : gradient_.relu, b.at_or_null(op_.existing),
                                 b.at(op_.dx), state_, stream);
        break;
      }
    }
  }

  void accumulate(bool adds) override { gradient_.gamma_gradient.adds = gradient_.beta_gradient.adds = adds; }

  std::span<float> running_statistics() override {
    return {state_.running_mean, static_cast<std::size_t>(2 * shape_.channels)};
  }

  void share_statistics(std::span<float> common) override {
    state_.running_mean = common.data();
    state_.running_variance = common.data() + shape_.channels;
  }

 private:
  std::uint8_t* mask() const { return reinterpret_cast<std::uint8_t*>(build_.at_or_null(op_.memo)); }

  Build build_;
  Operator op_;
  bool differentiable_;
  BatchNormShape shape_{};
  BatchNormState state_{};
  BatchNormGradient gradient_{};
  DeviceMemory channels_;
};

}  // namespace

std::unique_ptr<Runnable> make_batch_norm(const Build& build, const Operator& op) {
  return std::make_unique<BatchNormOperator>(build, op);
}

}  // namespace foretrain::device::cuda
