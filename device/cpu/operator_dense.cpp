// Convolutions and linear layers: products with weights, which the library wants in layouts of its own.
#include <algorithm>
#include <optional>

#include "device/cpu/operators.hpp"

namespace foretrain::device::cpu {
namespace {

// A primitive, and how what it reads and writes has to lie.
struct Part {
  dnnl::primitive primitive;
  Layout source, weights, destination, scratchpad;
};

template <typename Description, typename Primitive>
Part forward_part(const Description& d) {
  return {Primitive(d), d.src_desc(), d.weights_desc(), d.dst_desc(), d.scratchpad_desc()};
}
template <typename Description, typename Primitive>
Part data_part(const Description& d) {
  return {Primitive(d), d.diff_src_desc(), d.weights_desc(), d.diff_dst_desc(), d.scratchpad_desc()};
}
template <typename Description, typename Primitive>
Part weights_part(const Description& d) {
  return {Primitive(d), d.src_desc(), d.diff_weights_desc(), d.diff_dst_desc(), d.scratchpad_desc()};
}

struct Parts {
  Part forward, data, weights;
};

// Where the library has no implementation for the layouts that are there, in layouts that it has one for.
template <typename Shape, typename Make>
auto made(Shape shape, const Make& make) {
  try {
    return make(shape);
  } catch (const dnnl::error&) {
    shape.source = any_layout(shape.source.dims(), shape.source.data_type());
    shape.destination = any_layout(shape.destination.dims(), shape.destination.data_type());
    return make(shape);
  }
}

// What the backward primitives read and write: gradients of the result as the forward one reads numbers,
// those of input and weights in fp32.
template <typename Shape>
struct BackwardShapes {
  Shape data, weights;
  explicit BackwardShapes(const Shape& forward) : data(forward), weights(forward) {
    data.relu = weights.relu = false;
    if (forward.source.data_type() == Number::f32) return;
    const Number number = forward.source.data_type();
    data.source = any_layout(forward.source.dims());
    data.weights = any_layout(forward.weights.dims(), number);
    data.destination = weights.destination = any_layout(forward.destination.dims(), number);
    weights.weights = any_layout(forward.weights.dims());
  }
};

Parts convolution_parts(ConvolutionShape shape) {
  const auto forward = convolution_forward(shape);
  shape.source = forward.src_desc();
  shape.destination = forward.dst_desc();
  const BackwardShapes<ConvolutionShape> back(shape);
  const auto data = made(back.data, [&](const auto& s) { return convolution_backward_data(s, forward); });
  const auto weights =
      made(back.weights, [&](const auto& s) { return convolution_backward_weights(s, forward); });
  using F = dnnl::convolution_forward;
  using D = dnnl::convolution_backward_data;
  using W = dnnl::convolution_backward_weights;
  return {forward_part<F::primitive_desc, F>(forward), data_part<D::primitive_desc, D>(data),
          weights_part<W::primitive_desc, W>(weights)};
}

Parts product_parts(ProductShape shape) {
  const auto forward = product_forward(shape);
  BackwardShapes<ProductShape> back(shape);
  // Rows as they lie.
  back.data.source = plain_layout(shape.source.dims());
  back.data.destination = back.weights.destination =
      plain_layout(shape.destination.dims(), shape.source.data_type());
  const auto data = made(back.data, [&](const auto& s) { return product_backward_data(s, forward); });
  const auto weights =
      made(back.weights, [&](const auto& s) { return product_backward_weights(s, forward); });
  using F = dnnl::inner_product_forward;
  using D = dnnl::inner_product_backward_data;
  using W = dnnl::inner_product_backward_weights;
  return {forward_part<F::primitive_desc, F>(forward), data_part<D::primitive_desc, D>(data),
          weights_part<W::primitive_desc, W>(weights)};
}

class Dense : public Operator {
 public:
  // `source`: the input as it lies in memory, `inside` as the primitives want it, in the same dimensions.
  // `plain`: the weights as the parameter has them.
  Dense(const Layer& layer, Parts parts, Layout source, Layout inside, Layout plain, Layout output)
      : layer_(layer),
        parts_(std::move(parts)),
        source_(std::move(source)),
        inside_(std::move(inside)),
        plain_(std::move(plain)),
        output_(std::move(output)) {}

  const Layout& output() const override { return output_; }

  std::int64_t scratchpad_bytes() const override {
    std::int64_t most = 0;
    for (const Part* part : {&parts_.forward, &parts_.data, &parts_.weights})
      most = std::max(most, static_cast<std::int64_t>(part->scratchpad.get_size()));
    return most;
  }
  // One at a time: a gradient of the input before it is added, one of the weights before it is put in order.
  std::int64_t scratch_floats() const override {
    return std::max({floats_of(parts_.data.source), floats_of(parts_.weights.weights), floats_of(plain_)});
  }

  void bind(const Places& p) override {
    const Part &forward = parts_.forward, &data = parts_.data;
    weight_ = p.parameters->weight(layer_.parameters[0]);
    gradient_ = p.parameters->gradient(layer_.parameters[0]);
    shares_gradient_ = p.shared_gradients[0];
    scratch_ = p.scratch;
    packed_ = pack(forward.weights, p);
    packed_back_ = data.weights == forward.weights ? packed_ : pack(data.weights, p);

    float* source = p.inputs[0].data;
    if (inside_ != source_) {
      source = keep(floats_of(inside_), p);
      before_forward_.push_back(reorder(source_, p.inputs[0].data, inside_, source));
    }
    float* bias = layer_.bias ? p.parameters->weight(layer_.parameters[1]) : nullptr;
    Call::Arguments arguments{{DNNL_ARG_SRC, memory_at(forward.source, source)},
                              {DNNL_ARG_WEIGHTS, memory_at(forward.weights, packed_)},
                              {DNNL_ARG_DST, memory_at(forward.destination, p.output)}};
    if (bias != nullptr) arguments.insert({DNNL_ARG_BIAS, memory_at(bias_layout(), bias)});
    forward_ = finish(forward, std::move(arguments), p);

    bind_weights(p, source);
    bind_data(p);
  }

  int launches(Pass pass) const override {
    switch (pass) {
      case Pass::forward:
        return static_cast<int>(before_forward_.size()) + 1;
      case Pass::backward_data:
        return has_data_
                   ? static_cast<int>(before_data_.size() + after_data_.size()) + 1 + (adds_data_ ? 1 : 0)
                   : 0;
      case Pass::backward_weights:
        return static_cast<int>(before_weights_.size()) + 1 + (is_put_in_order_ ? 1 : 0);
    }
    return 0;
  }

  void run(Pass pass, bool adds) override {
    const auto all = [](const std::vector<Call>& calls) {
      for (const Call& call : calls) call.run();
    };
    switch (pass) {
      case Pass::forward:
        all(before_forward_);
        return forward_.run();
      case Pass::backward_data:
        all(before_data_);
        data_.run();
        all(after_data_);
        if (adds_data_) add_to(input_gradient_, scratch_, floats_of(source_));
        return;
      case Pass::backward_weights:
        all(before_weights_);
        return run_weights(adds || shares_gradient_);
    }
  }

  void refresh() override {
    for (const Call& call : packs_) call.run();
  }
  int refresh_launches() const override { return static_cast<int>(packs_.size()); }

 private:
  Layout bias_layout() const { return plain_layout({output_dims()}); }
  std::int64_t output_dims() const {
    return plain_.dims().size() == 5 ? plain_.dims()[0] * plain_.dims()[1] : plain_.dims()[0];
  }

  float* keep(std::int64_t floats, const Places& p) {
    kept_.emplace_back(floats * static_cast<std::int64_t>(sizeof(float)), p.count);
    return kept_.back().as();
  }

  // The weights in another layout, or where they are.
  float* pack(const Layout& layout, const Places& p) {
    if (layout == plain_) return weight_;
    float* packed = keep(floats_of(layout), p);
    packs_.push_back(reorder(plain_, weight_, layout, packed));
    return packed;
  }

  static Call finish(const Part& part, Call::Arguments arguments, const Places& p) {
    arguments.insert({DNNL_ARG_SCRATCHPAD, scratchpad_at(part.scratchpad, p)});
    return Call(part.primitive, std::move(arguments));
  }

  // The output's gradient as a part wants it. The pass of the weights comes before that of the input, and
  // what it has reordered serves both.
  float* destination(const Part& part, std::vector<Call>& before, const Places& p) {
    if (part.destination == parts_.forward.destination) return p.gradient;
    if (&part == &parts_.data && part.destination == parts_.weights.destination) return reordered_;
    reordered_ = keep(floats_of(part.destination), p);
    before.push_back(reorder(parts_.forward.destination, p.gradient, part.destination, reordered_));
    return reordered_;
  }

  void bind_data(const Places& p) {
    const Part& part = parts_.data;
    has_data_ = p.inputs[0].gradient != nullptr;
    if (!has_data_) return;
    input_gradient_ = p.inputs[0].gradient;
    // A linear layer's rows are the same numbers in other dimensions.
    const Layout own = part.source.dims() == source_.dims() ? part.source : plain_layout(source_.dims());
    const bool in_place = own == source_;
    adds_data_ = in_place && p.inputs[0].adds;
    float* target = in_place && !p.inputs[0].adds ? input_gradient_ : p.scratch;
    data_ = finish(part,
                   {{DNNL_ARG_DIFF_DST, memory_at(part.destination, destination(part, before_data_, p))},
                    {DNNL_ARG_WEIGHTS, memory_at(part.weights, packed_back_)},
                    {DNNL_ARG_DIFF_SRC, memory_at(part.source, target)}},
                   p);
    if (!in_place) {
      after_data_.push_back(reorder(own, p.scratch, source_, input_gradient_, p.inputs[0].adds));
    }
  }

  // Set: at once into the flat gradients where the layout allows, else through the scratch. Added: always
  // through it. A bias's gradient is set beside the flat one and added.
  void bind_weights(const Places& p, float* source) {
    const Part& part = parts_.weights;
    if (part.source != parts_.forward.source) {
      float* own = keep(floats_of(part.source), p);
      before_weights_.push_back(reorder(parts_.forward.source, source, part.source, own));
      source = own;
    }
    is_put_in_order_ = part.weights != plain_;
    float* gradient = destination(part, before_weights_, p);
    const auto call = [&](float* target, float* bias) {
      Call::Arguments arguments{{DNNL_ARG_SRC, memory_at(part.source, source)},
                                {DNNL_ARG_DIFF_DST, memory_at(part.destination, gradient)},
                                {DNNL_ARG_DIFF_WEIGHTS, memory_at(part.weights, target)}};
      if (bias != nullptr) arguments.insert({DNNL_ARG_DIFF_BIAS, memory_at(bias_layout(), bias)});
      return finish(part, std::move(arguments), p);
    };
    float* bias_gradient = layer_.bias ? p.parameters->gradient(layer_.parameters[1]) : nullptr;
    bias_gradient_ = bias_gradient;
    float* own_bias = layer_.bias ? keep(output_dims(), p) : nullptr;
    own_bias_ = own_bias;
    sets_weights_ = call(is_put_in_order_ ? p.scratch : gradient_, bias_gradient);
    adds_weights_ = call(p.scratch, own_bias);
    if (is_put_in_order_) {
      puts_in_order_ = reorder(part.weights, p.scratch, plain_, gradient_);
      puts_in_order_adding_ = reorder(part.weights, p.scratch, plain_, gradient_, true);
    }
  }

  void run_weights(bool adds) {
    (adds ? adds_weights_ : sets_weights_).run();
    if (is_put_in_order_) {
      (adds ? puts_in_order_adding_ : puts_in_order_).run();
    } else if (adds) {
      add_to(gradient_, scratch_, floats_of(plain_));
    }
    if (adds && own_bias_ != nullptr) add_to(bias_gradient_, own_bias_, output_dims());
  }

  const Layer& layer_;
  Parts parts_;
  Layout source_, inside_, plain_, output_;
  std::vector<Block> kept_;
  float *weight_ = nullptr, *gradient_ = nullptr, *packed_ = nullptr, *packed_back_ = nullptr;
  float* reordered_ = nullptr;  // the output's gradient
  float *input_gradient_ = nullptr, *scratch_ = nullptr, *bias_gradient_ = nullptr, *own_bias_ = nullptr;
  std::vector<Call> packs_, before_forward_, before_data_, after_data_, before_weights_;
  Call forward_, data_, sets_weights_, adds_weights_, puts_in_order_, puts_in_order_adding_;
  bool has_data_ = false, adds_data_ = false, is_put_in_order_ = false, shares_gradient_ = false;
};

Number number_of(const OperatorPlan& plan) {
  return plan.bf16 ? Number::bf16 : Number::f32;
}

}  // namespace

std::unique_ptr<Operator> make_convolution(const OperatorPlan& plan) {
  const Layer& layer = plan.layer;
  const Window& window = layer.window;
  const Shape& in = plan.model.layers[static_cast<std::size_t>(layer.inputs[0])].output;
  Dims weights = plan.model.parameters[static_cast<std::size_t>(layer.parameters[0])].shape;
  if (window.groups > 1) {
    weights[0] /= window.groups;
    weights.insert(weights.begin(), window.groups);
  }
  ConvolutionShape shape;
  shape.source = any_layout(dims_of(plan.batch, in), number_of(plan));
  shape.weights = any_layout(weights, number_of(plan));
  shape.bias = layer.bias ? plain_layout({layer.output[0]}) : no_layout();
  shape.destination = any_layout(dims_of(plan.batch, layer.output));
  shape.window = window;
  shape.relu = plan.relu;
  Parts parts = convolution_parts(shape);
  Layout output = parts.forward.destination, inside = parts.forward.source;
  return std::make_unique<Dense>(layer, std::move(parts), plan.inputs[0], std::move(inside),
                                 plain_layout(weights), std::move(output));
}

std::unique_ptr<Operator> make_linear(const OperatorPlan& plan) {
  const Layer& layer = plan.layer;
  const std::int64_t rows = rows_of(plan.batch, layer.output), out = features_of(layer.output);
  const std::int64_t in = features_of(plan.model.layers[static_cast<std::size_t>(layer.inputs[0])].output);
  ProductShape shape;
  shape.source = plain_layout({rows, in}, number_of(plan));
  shape.weights = any_layout({out, in}, number_of(plan));
  shape.bias = layer.bias ? plain_layout({out}) : no_layout();
  shape.destination = plain_layout({rows, out});
  shape.relu = plan.relu;
  return std::make_unique<Dense>(layer, product_parts(shape), plan.inputs[0],
                                 plain_layout(plan.inputs[0].dims(), number_of(plan)),
                                 plain_layout({out, in}), plain_layout(dims_of(plan.batch, layer.output)));
}

}  // namespace foretrain::device::cpu
