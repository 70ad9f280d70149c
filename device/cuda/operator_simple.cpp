// Operators without parameters: pools, a ReLU or an addition that nothing took in, and the loss.
#include "device/cuda/operators.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::cuda {
namespace {

class Simple : public Runnable {
 public:
  Simple(const Build& build, const Operator& op)
      : build_(build), op_(op), differentiable_(build.tensor(op.inputs[0]).differentiable) {}
  bool has(Pass pass) const override {
    return pass == Pass::forward || (pass == Pass::backward_data && differentiable_);
  }

 protected:
  cudaStream_t stream() const { return build_.context.compute; }
  std::int64_t elements() const { return build_.options.batch * build_.tensor(op_.output).elements(); }

  Build build_;
  Operator op_;
  bool differentiable_;
};

class PoolOperator : public Simple {
 public:
  PoolOperator(const Build& build, const Operator& op) : Simple(build, op) {
    const Layer& layer = build.layer(op);
    const Tensor& in = build.tensor(op.inputs[0]);
    const Tensor& out = build.tensor(op.output);
    const Window& w = layer.window;
    shape_ = {build.options.batch,
              in.channels,
              static_cast<int>(in.height),
              static_cast<int>(in.width),
              static_cast<int>(out.height),
              static_cast<int>(out.width),
              w.kernel_h,
              w.kernel_w,
              w.stride_h,
              w.stride_w,
              w.pad_h,
              w.pad_w,
              w.count_padding};
    maximum_ = layer.kind == LayerKind::max_pool;
    if (layer.kind == LayerKind::global_pool) {
      shape_.out_h = shape_.out_w = 1;
      shape_.kernel_h = shape_.stride_h = shape_.in_h;
      shape_.kernel_w = shape_.stride_w = shape_.in_w;
      shape_.pad_h = shape_.pad_w = 0;
    } else if (w.dilation_h != 1 || w.dilation_w != 1) {
      throw Error(ErrorKind::unavailable, "layer " + layer.name + ": the cuda backend has no dilated pools");
    }
    if (maximum_ && shape_.kernel_h * shape_.kernel_w > 256) {
      throw Error(ErrorKind::unavailable,
                  "layer " + layer.name + ": the cuda backend takes windows of at most 256 elements");
    }
  }
  void run(Pass pass) override {
    const Build& b = build_;
    auto* choice = reinterpret_cast<std::uint8_t*>(b.at_or_null(op_.memo));
    if (pass == Pass::forward) {
      maximum_ ? max_pool_forward(b.type, shape_, b.at(op_.x), b.at(op_.y), choice, stream())
               : avg_pool_forward(b.type, shape_, b.at(op_.x), b.at(op_.y), stream());
    } else {
      run_sums(b, op_);
      maximum_ ? max_pool_backward(b.type, shape_, b.at(op_.dy), choice, b.at(op_.dx), stream())
               : avg_pool_backward(b.type, shape_, b.at(op_.dy), b.at(op_.dx), stream());
    }
  }

 private:
  PoolShape shape_{};
  bool maximum_ = false;
};

class ReluOperator : public Simple {
 public:
  using Simple::Simple;
  void run(Pass pass) override {
    const Build& b = build_;
    if (pass == Pass::forward) {
      relu_forward(b.type, elements(), b.at(op_.x), b.at(op_.y), stream());
    } else {
      run_sums(b, op_);
      relu_backward(b.type, elements(), b.at(op_.dy), b.at(op_.y), b.at(op_.dx), stream());
    }
  }
};

class AddOperator : public Simple {
 public:
  using Simple::Simple;
  bool has(Pass pass) const override { return pass == Pass::forward && !op_.forward_fused; }
  void run(Pass) override {
    const Build& b = build_;
    const void* sum = b.at(op_.inputs_at[0]);
    for (std::size_t i = 1; i < op_.inputs_at.size(); ++i) {
      add(b.type, elements(), sum, b.at(op_.inputs_at[i]), b.at(op_.y), stream());
      sum = b.at(op_.y);
    }
  }
};

class LossOperator : public Simple {
 public:
  LossOperator(const Build& build, const Operator& op)
      : Simple(build, op), count_(build.options.batch * build.tensor(op.inputs[0]).pixels()) {
    rows_ = DeviceMemory(build.context.account, (count_ + 2) * 4);
    FORETRAIN_CUDA(cudaMemset(rows_.data(), 0, static_cast<std::size_t>(rows_.bytes())));
  }
  bool has(Pass pass) const override { return pass == Pass::forward; }
  void run(Pass) override {
    const Build& b = build_;
    float* rows = rows_.as<float>();
    auto* counters = reinterpret_cast<unsigned*>(rows + count_);
    cross_entropy(b.type, count_, b.tensor(op_.inputs[0]).channels, b.at(op_.x), b.labels,
                  b.model.tokens == 0, b.at(op_.dx), rows, b.loss, counters, stream());
  }

 private:
  std::int64_t count_;
  DeviceMemory rows_;  // losses of the rows, then two counters
};

}  // namespace

void run_sums(const Build& build, const Operator& op) {
  const std::int64_t elements = build.options.batch * build.tensor(op.output).elements();
  for (const GradientSum& s : op.sums) {
    add(build.type, elements, build.at(s.a), build.at(s.b), build.at(s.sum), build.context.compute);
  }
}

std::unique_ptr<Runnable> make_pool(const Build& build, const Operator& op) {
  return std::make_unique<PoolOperator>(build, op);
}
std::unique_ptr<Runnable> make_relu(const Build& build, const Operator& op) {
  return std::make_unique<ReluOperator>(build, op);
}
std::unique_ptr<Runnable> make_add(const Build& build, const Operator& op) {
  return std::make_unique<AddOperator>(build, op);
}
std::unique_ptr<Runnable> make_loss(const Build& build, const Operator& op) {
  return std::make_unique<LossOperator>(build, op);
}

}  // namespace foretrain::device::cuda
