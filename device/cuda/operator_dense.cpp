// conv2d by cuDNN and linear by cuBLASLt, with bias and ReLU.
#include <algorithm>

#include "device/cuda/operators.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::cuda {
namespace {

// What both have: the gradient through bias and ReLU, before the products.
class Dense : public Runnable {
 public:
  Dense(const Build& build, const Operator& op)
      : build_(build),
        op_(op),
        layer_(build.layer(op)),
        weight_(layer_.parameters[0]),
        bias_(layer_.bias ? layer_.parameters[1] : -1),
        differentiable_(build.tensor(op.inputs[0]).differentiable),
        rows_(build.options.batch * build.tensor(op.output).pixels()),
        channels_(build.tensor(op.output).channels),
        gradient_(op.g == nowhere ? build.at_or_null(op.dy) : build.at(op.g)) {
    if (bias_ >= 0) bias_sink_ = sink_of(build, op, bias_);
  }

  bool has(Pass pass) const override { return pass != Pass::backward_data || differentiable_; }
  void accumulate(bool adds) override { adds_ = adds; }

 protected:
  void bias_and_relu_backward() {
    run_sums(build_, op_);
    const Build& b = build_;
    const cudaStream_t stream = b.context.compute;
    if (bias_ < 0) return;
    const GradientSink sink = accumulating(bias_sink_, adds_);
    bias_backward(b.type, rows_, channels_, b.at(op_.dy), b.at_or_null(op_.dy2),
                  op_.relu ? b.at(op_.y) : nullptr, b.at_or_null(op_.g), sink, b.reduction, stream);
  }

  Build build_;
  Operator op_;
  const Layer& layer_;
  int weight_, bias_;
  bool differentiable_, adds_ = false;
  std::int64_t rows_, channels_;
  std::byte* gradient_;  // of the output before bias and ReLU
  GradientSink bias_sink_;
};

class ConvolutionOperator : public Dense {
 public:
  ConvolutionOperator(const Build& build, const Operator& op) : Dense(build, op) {
    const Tensor& in = build.tensor(op.inputs[0]);
    const Tensor& out = build.tensor(op.output);
    in_channels_ = op.inputs[0] == 0 ? build.input_channels : in.channels;
    padded_ = in_channels_ != in.channels;
    problem_ = {build.options.batch,
                in_channels_,
                in.height,
                in.width,
                out.channels,
                out.height,
                out.width,
                layer_.window,
                build.type,
                build.type,
                build.tf32,
                build.options.deterministic,
                std::max(1, build.options.plan_candidates)};
    weights_ = static_cast<std::byte*>(build.parameters.computed(weight_));
    if (padded_) {
      const std::int64_t elements = build.model.parameters[static_cast<std::size_t>(weight_)].elements;
      copy_ =
          DeviceMemory(build.context.account, elements / in.channels * in_channels_ * bytes_of(build.type));
      weights_ = copy_.data();
      refresh();
    }
    plan_forward();
    plan_weights();
    if (differentiable_) {
      data_ = plan(problem_, ConvolutionPass::backward_data, {gradient_, weights_, build.at(op.dx)});
      if (!data_) no_engine("backward_data");
    }
  }

  void run(Pass pass) override {
    const Build& b = build_;
    const cudaStream_t stream = b.context.compute;
    switch (pass) {
      case Pass::forward:
        forward_->run(b.context.cudnn);
        if (bias_ >= 0 && !fused_) {
          bias_forward(b.type, rows_, channels_, b.at(op_.y), b.parameters.master(bias_), op_.relu,
                       b.at(op_.y), stream);
        }
        break;
      case Pass::backward_weights:
        bias_and_relu_backward();
        (direct_ && adds_ ? weights_aside_ : weights_pass_)->run(b.context.cudnn);
        if (!direct_ || adds_) {
          const std::int64_t in = b.tensor(op_.inputs[0]).channels / layer_.window.groups;
          const std::int64_t stored = padded_ ? in_channels_ : in;
          const std::int64_t rows = b.model.parameters[static_cast<std::size_t>(weight_)].elements / in;
          convert_rows(rows, in, b.scratch, written_type_, stored, b.parameters.gradient(weight_),
                       b.parameters.gradient_type(), in, stream, adds_);
        }
        break;
      case Pass::backward_data:
        data_->run(b.context.cudnn);
        break;
    }
  }

  std::int64_t workspace() const override {
    std::int64_t most = std::max(forward_->workspace(), weights_pass_->workspace());
    if (data_) most = std::max(most, data_->workspace());
    return most;
  }
  void bind(void* workspace) override {
    forward_->bind(workspace);
    weights_pass_->bind(workspace);
    if (weights_aside_) weights_aside_->bind(workspace);
    if (data_) data_->bind(workspace);
  }
  int refresh_launches() const override { return padded_ ? 1 : 0; }
  void refresh() override {
    if (!padded_) return;
    const std::int64_t in = build_.tensor(op_.inputs[0]).channels;
    const std::int64_t rows = build_.model.parameters[static_cast<std::size_t>(weight_)].elements / in;
    convert_rows(rows, in, build_.parameters.master(weight_), Scalar::f32, in, copy_.data(), build_.type,
                 in_channels_, build_.context.compute);
  }

 private:
  std::unique_ptr<Convolution> plan(const ConvolutionProblem& problem, ConvolutionPass pass,
                                    const ConvolutionTensors& tensors, double* seconds = nullptr) {
    const TimedPlan found = build_.context.plans.find(problem, pass, tensors, build_.search);
    if (seconds) *seconds = found.seconds;
    return found.plan ? std::make_unique<Convolution>(found.plan, pass, tensors) : nullptr;
  }
  [[noreturn]] void no_engine(const char* pass) const {
    throw Error(ErrorKind::unavailable, "cuDNN has no engine for layer " + layer_.name + ", " + pass + " (" +
                                            operator_key(build_.model, layer_) + ")");
  }

  void plan_forward() {
    const Build& b = build_;
    const ConvolutionTensors tensors{b.at(op_.x), weights_, b.at(op_.y),
                                     bias_ >= 0 ? b.parameters.master(bias_) : nullptr};
    double plain = 0, together = 0;
    forward_ = plan(problem_, ConvolutionPass::forward, tensors, &plain);
    if (bias_ >= 0) {
      const auto pass = op_.relu ? ConvolutionPass::forward_bias_relu : ConvolutionPass::forward_bias;
      ConvolutionProblem problem = problem_;
      problem.candidates = 1;  // each may be compiled at run time, a third of a second
      auto fused = plan(problem, pass, tensors, &together);
      // The kernel that it saves reads and writes the output once.
      const double saved = 2.0 * static_cast<double>(rows_ * channels_ * bytes_of(b.type)) / 2.5e12;
      if (fused && (!forward_ || together < plain + saved)) {
        forward_ = std::move(fused);
        fused_ = true;
      }
    }
    if (!forward_) no_engine("forward");
  }

  // cuDNN 9 has fast engines that write the operands' type; fp32 from bf16 operands has but a slow one,
  // compiled at run time, and is taken only where there is no other.
  void plan_weights() {
    const Build& b = build_;
    const Scalar wanted = b.parameters.gradient_type();
    ConvolutionTensors tensors{b.at(op_.x), gradient_, b.scratch};
    direct_ = !padded_ && wanted == b.type;
    if (direct_) tensors.result = b.parameters.gradient(weight_);
    written_type_ = b.type;
    ConvolutionProblem problem = problem_;
    weights_pass_ = plan(problem, ConvolutionPass::backward_weights, tensors);
    if (!weights_pass_) {
      problem.weights_type = written_type_ = Scalar::f32;
      direct_ = !padded_ && wanted == Scalar::f32;
      tensors.result = direct_ ? b.parameters.gradient(weight_) : b.scratch;
      weights_pass_ = plan(problem, ConvolutionPass::backward_weights, tensors);
    }
    if (!weights_pass_) no_engine("backward_weights");
    if (direct_) {  // the way by the scratch, when gradients accumulate
      tensors.result = b.scratch;
      weights_aside_ = plan(problem, ConvolutionPass::backward_weights, tensors);
    }
  }

  std::int64_t in_channels_ = 0;
  bool padded_ = false, fused_ = false, direct_ = false;
  Scalar written_type_ = Scalar::f32;
  ConvolutionProblem problem_{};
  std::byte* weights_ = nullptr;
  DeviceMemory copy_;
  std::unique_ptr<Convolution> forward_, data_, weights_pass_, weights_aside_;
};

class LinearOperator : public Dense {
 public:
  LinearOperator(const Build& build, const Operator& op) : Dense(build, op) {
    const Build& b = build_;
    // Over an image as one row; over a sequence row by row.
    const std::int64_t in = b.tensor(op.inputs[0]).elements() / b.tensor(op.output).pixels();
    const std::int64_t out = channels_, batch = rows_;
    shared_ = is_shared_gradient(b, op, weight_);
    const void* weights = b.parameters.computed(weight_);
    const int candidates = std::max(1, b.options.plan_candidates);
    MatmulProblem problem{batch,  out,    in,         false,   true,      b.type,
                          b.type, b.tf32, bias_ >= 0, op.relu, candidates};
    forward_ = std::make_unique<Matmul>(problem, b.at(op.x), weights, b.at(op.y),
                                        bias_ >= 0 ? b.parameters.computed(bias_) : nullptr);
    // cuBLASLt writes fp32 or the operands' type.
    const Scalar wanted = b.parameters.gradient_type();
    written_type_ = wanted == b.type ? wanted : Scalar::f32;
    direct_ = written_type_ == wanted;
    problem = {out, in, batch, true, false, b.type, written_type_, b.tf32, false, false, candidates};
    weights_pass_ = std::make_unique<Matmul>(problem, gradient_, b.at(op.x),
                                             direct_ ? b.parameters.gradient(weight_) : b.scratch, nullptr);
    if (differentiable_) {
      problem = {batch, in, out, false, false, b.type, b.type, b.tf32, false, false, candidates};
      data_ = std::make_unique<Matmul>(problem, gradient_, weights, b.at(op.dx), nullptr);
    }
    for (Matmul* product : {forward_.get(), weights_pass_.get(), data_.get()}) {
      if (product) product->choose(b.context.cublas, b.context.matmuls, b.search, b.context.compute);
    }
  }

  void run(Pass pass) override {
    const Build& b = build_;
    const cudaStream_t stream = b.context.compute;
    switch (pass) {
      case Pass::forward:
        forward_->run(b.context.cublas, workspace_, stream);
        break;
      case Pass::backward_weights:
        bias_and_relu_backward();
        weights_pass_->run(b.context.cublas, workspace_, stream, direct_ && (adds_ || shared_));
        if (!direct_) {
          const std::int64_t elements = b.model.parameters[static_cast<std::size_t>(weight_)].elements;
          convert_rows(elements, 1, b.scratch, written_type_, 1, b.parameters.gradient(weight_),
                       b.parameters.gradient_type(), 1, stream, adds_ || shared_);
        }
        break;
      case Pass::backward_data:
        data_->run(b.context.cublas, workspace_, stream);
        break;
    }
  }
  std::int64_t workspace() const override {
    const std::int64_t most = std::max(forward_->workspace(), weights_pass_->workspace());
    return data_ ? std::max(most, data_->workspace()) : most;
  }
  void bind(void* workspace) override { workspace_ = workspace; }

 private:
  Scalar written_type_ = Scalar::f32;
  bool direct_ = true, shared_ = false;
  void* workspace_ = nullptr;
  std::unique_ptr<Matmul> forward_, weights_pass_, data_;
};

}  // namespace

std::int64_t scratch_bytes(const Model& model, std::int64_t input_channels) {
  std::int64_t most = 0;
  for (const Layer& layer : model.layers) {
    if (layer.kind != LayerKind::conv2d && layer.kind != LayerKind::linear) continue;
    const Parameter& weight = model.parameters[static_cast<std::size_t>(layer.parameters[0])];
    std::int64_t elements = weight.elements;
    if (layer.kind == LayerKind::conv2d && layer.inputs[0] == 0 && weight.shape.size() > 1) {
      elements = elements / weight.shape[1] * input_channels;
    }
    most = std::max(most, elements * 4);
  }
  return most;
}

std::unique_ptr<Runnable> make_convolution(const Build& build, const Operator& op) {
  return std::make_unique<ConvolutionOperator>(build, op);
}
std::unique_ptr<Runnable> make_linear(const Build& build, const Operator& op) {
  return std::make_unique<LinearOperator>(build, op);
}

}  // namespace foretrain::device::cuda
