// Batch norms and pools of images, by the library.
#include <cmath>

#include "device/cpu/operators.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::cpu {
namespace {

// Its one backward primitive gives the gradients of scale, shift and input: all of it is the pass
// backward_weights.
class BatchNorm : public Operator {
 public:
  explicit BatchNorm(const OperatorPlan& plan)
      : layer_(plan.layer),
        index_(static_cast<std::size_t>(plan.index)),
        channels_(plan.layer.output[0]),
        layout_(plan.inputs[0]),
        per_channel_(rows(plan)),
        relu_(plan.relu),
        forward_(batch_norm_forward(layout_, layer_.epsilon, relu_)),
        backward_(batch_norm_backward(layout_, layer_.epsilon, relu_, forward_)) {}

  const Layout& output() const override { return layout_; }
  std::int64_t scratchpad_bytes() const override {
    return static_cast<std::int64_t>(
        std::max(forward_.scratchpad_desc().get_size(), backward_.scratchpad_desc().get_size()));
  }
  std::int64_t scratch_floats() const override { return floats_of(layout_); }

  void bind(const Places& p) override {
    const Layout channels = plain_layout({channels_});
    statistics_ = Block(4 * channels_ * static_cast<std::int64_t>(sizeof(float)), p.count);
    running_ = &p.parameters->statistics()[index_];
    float *mean = statistics_.as(), *variance = mean + channels_;
    float* scale = p.parameters->weight(layer_.parameters[0]);
    float* shift = p.parameters->weight(layer_.parameters[1]);
    Call::Arguments forward{{DNNL_ARG_SRC, memory_at(layout_, p.inputs[0].data)},
                            {DNNL_ARG_DST, memory_at(layout_, p.output)},
                            {DNNL_ARG_MEAN, memory_at(channels, mean)},
                            {DNNL_ARG_VARIANCE, memory_at(channels, variance)},
                            {DNNL_ARG_SCALE, memory_at(channels, scale)},
                            {DNNL_ARG_SHIFT, memory_at(channels, shift)},
                            {DNNL_ARG_SCRATCHPAD, scratchpad_at(forward_.scratchpad_desc(), p)}};
    const Layout signs = forward_.workspace_desc();
    if (relu_) {
      workspace_ = Block(static_cast<std::int64_t>(signs.get_size()), p.count);
      forward.insert({DNNL_ARG_WORKSPACE, memory_at(signs, workspace_.as())});
    }
    // An input that wants no gradient gets one all the same, into the scratch.
    InputPlace input = p.inputs[0];
    if (input.gradient == nullptr) input = {input.data, p.scratch, false};
    target_ = GradientTarget(input, p.scratch, floats_of(layout_));
    shared_ = p.shared_gradients[0];
    gradients_[0] = p.parameters->gradient(layer_.parameters[0]);
    gradients_[1] = p.parameters->gradient(layer_.parameters[1]);
    own_ = variance + channels_;
    const auto backward = [&](float* scale_gradient, float* shift_gradient) {
      Call::Arguments arguments{{DNNL_ARG_SRC, memory_at(layout_, p.inputs[0].data)},
                                {DNNL_ARG_DIFF_DST, memory_at(layout_, p.gradient)},
                                {DNNL_ARG_MEAN, memory_at(channels, mean)},
                                {DNNL_ARG_VARIANCE, memory_at(channels, variance)},
                                {DNNL_ARG_SCALE, memory_at(channels, scale)},
                                {DNNL_ARG_SHIFT, memory_at(channels, shift)},
                                {DNNL_ARG_DIFF_SRC, memory_at(layout_, target_.computed)},
                                {DNNL_ARG_DIFF_SCALE, memory_at(channels, scale_gradient)},
                                {DNNL_ARG_DIFF_SHIFT, memory_at(channels, shift_gradient)},
                                {DNNL_ARG_SCRATCHPAD, scratchpad_at(backward_.scratchpad_desc(), p)}};
      if (relu_) arguments.insert({DNNL_ARG_WORKSPACE, memory_at(signs, workspace_.as())});
      return Call(dnnl::batch_normalization_backward(backward_), std::move(arguments));
    };
    forward_call_ = Call(dnnl::batch_normalization_forward(forward_), std::move(forward));
    setting_ = backward(gradients_[0], gradients_[1]);
    adding_ = backward(own_, own_ + channels_);
  }

  int launches(Pass pass) const override {
    if (pass == Pass::forward) return 1;
    return pass == Pass::backward_weights ? target_.launches() : 0;
  }

  void run(Pass pass, bool adds) override {
    if (pass == Pass::forward) {
      forward_call_.run();
      return move_running();
    }
    const bool adding = adds || shared_;
    (adding ? adding_ : setting_).run();
    if (adding) {
      add_to(gradients_[0], own_, channels_);
      add_to(gradients_[1], own_ + channels_, channels_);
    }
    target_.finish();
  }

 private:
  static std::int64_t rows(const OperatorPlan& plan) {
    return plan.batch * element_count(plan.layer.output) / plan.layer.output[0];
  }

  // The running variance is the unbiased one, as PyTorch has it.
  void move_running() {
    const float *mean = statistics_.as(), *variance = mean + channels_;
    const auto momentum = static_cast<float>(layer_.momentum);
    const auto n = static_cast<double>(per_channel_);
    const auto unbiased = static_cast<float>(n > 1 ? n / (n - 1) : 1);
    for (std::size_t c = 0; c < running_->mean.size(); ++c) {
      running_->mean[c] += momentum * (mean[c] - running_->mean[c]);
      running_->variance[c] += momentum * (variance[c] * unbiased - running_->variance[c]);
    }
  }

  const Layer& layer_;
  std::size_t index_;
  std::int64_t channels_;
  Layout layout_;
  std::int64_t per_channel_;
  bool relu_;
  dnnl::batch_normalization_forward::primitive_desc forward_;
  dnnl::batch_normalization_backward::primitive_desc backward_;
  Block statistics_, workspace_;  // mean, variance, own gradients of scale and shift; signs
  RunningStatistics* running_ = nullptr;
  float* gradients_[2] = {};
  float* own_ = nullptr;
  bool shared_ = false;
  GradientTarget target_;
  Call forward_call_, setting_, adding_;
};

Window window_of(const OperatorPlan& plan) {
  if (plan.layer.kind != LayerKind::global_pool) return plan.layer.window;
  const Shape& in = plan.model.layers[static_cast<std::size_t>(plan.layer.inputs[0])].output;
  Window whole;
  whole.kernel_h = static_cast<int>(in[1]);
  whole.kernel_w = static_cast<int>(in[2]);
  return whole;
}

class Pool : public Operator {
 public:
  explicit Pool(const OperatorPlan& plan)
      : source_(plan.inputs[0]),
        window_(window_of(plan)),
        is_max_(plan.layer.kind == LayerKind::max_pool),
        forward_(pool_forward(is_max_, source_, out_dims(plan), window_)),
        output_(forward_.dst_desc()),
        backward_(pool_backward(is_max_, source_, output_, window_, forward_)) {}

  const Layout& output() const override { return output_; }
  std::int64_t scratchpad_bytes() const override {
    return static_cast<std::int64_t>(
        std::max(forward_.scratchpad_desc().get_size(), backward_.scratchpad_desc().get_size()));
  }
  std::int64_t scratch_floats() const override { return floats_of(source_); }

  void bind(const Places& p) override {
    Call::Arguments forward{{DNNL_ARG_SRC, memory_at(source_, p.inputs[0].data)},
                            {DNNL_ARG_DST, memory_at(output_, p.output)},
                            {DNNL_ARG_SCRATCHPAD, scratchpad_at(forward_.scratchpad_desc(), p)}};
    const Layout choices = forward_.workspace_desc();
    if (is_max_) {
      workspace_ = Block(static_cast<std::int64_t>(choices.get_size()), p.count);
      forward.insert({DNNL_ARG_WORKSPACE, memory_at(choices, workspace_.as())});
    }
    forward_call_ = Call(dnnl::pooling_forward(forward_), std::move(forward));
    has_data_ = p.inputs[0].gradient != nullptr;
    if (!has_data_) return;
    target_ = GradientTarget(p.inputs[0], p.scratch, floats_of(source_));
    Call::Arguments backward{{DNNL_ARG_DIFF_DST, memory_at(output_, p.gradient)},
                             {DNNL_ARG_DIFF_SRC, memory_at(source_, target_.computed)},
                             {DNNL_ARG_SCRATCHPAD, scratchpad_at(backward_.scratchpad_desc(), p)}};
    if (is_max_) backward.insert({DNNL_ARG_WORKSPACE, memory_at(choices, workspace_.as())});
    backward_call_ = Call(dnnl::pooling_backward(backward_), std::move(backward));
  }

  int launches(Pass pass) const override {
    if (pass == Pass::forward) return 1;
    return pass == Pass::backward_data && has_data_ ? target_.launches() : 0;
  }

  void run(Pass pass, bool) override {
    if (pass == Pass::forward) return forward_call_.run();
    backward_call_.run();
    target_.finish();
  }

 private:
  static Dims out_dims(const OperatorPlan& plan) {
    Dims dims = dims_of(plan.batch, plan.layer.output);
    while (dims.size() < 4) dims.push_back(1);
    return dims;
  }

  Layout source_;
  Window window_;
  bool is_max_;
  dnnl::pooling_forward::primitive_desc forward_;
  Layout output_;
  dnnl::pooling_backward::primitive_desc backward_;
  Block workspace_;  // which element was the largest
  bool has_data_ = false;
  GradientTarget target_;
  Call forward_call_, backward_call_;
};

}  // namespace

std::unique_ptr<Operator> make_batch_norm(const OperatorPlan& plan) {
  return std::make_unique<BatchNorm>(plan);
}

std::unique_ptr<Operator> make_pool(const OperatorPlan& plan) {
  if (plan.layer.window.dilation_h != 1 || plan.layer.window.dilation_w != 1)
    throw Error(ErrorKind::unavailable,
                "the cpu backend runs no pool with dilation: layer '" + plan.layer.name + "'");
  return std::make_unique<Pool>(plan);
}

}  // namespace foretrain::device::cpu
