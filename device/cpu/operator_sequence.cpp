// Tables, norms, activations and what else works on rows of features one by one.
#include <cmath>

#include "device/cpu/operators.hpp"
#include "device/cpu/row_loops.hpp"
#include "device/dropout_mask.hpp"

namespace foretrain::device::cpu {
namespace {

constexpr std::int64_t number_bytes = sizeof(float);

// Our own: the library has no gather. Rows of the table lie where its gradient's rows do; a thread adds to
// those whose number it has, so that sums do not depend on who comes first.
class Embedding : public Operator {
 public:
  explicit Embedding(const OperatorPlan& plan)
      : layer_(plan.layer),
        table_(plan.layer.embedding),
        batch_(plan.batch),
        length_(plan.model.sequence),
        streams_(element_count(plan.model.input) / plan.model.sequence),
        features_(features_of(plan.layer.output)),
        scale_(table_.scaled ? std::sqrt(static_cast<float>(features_)) : 1.0f),
        output_(plain_layout(dims_of(plan.batch, plan.layer.output))) {
    if (table_.sinusoidal) make_sines();
  }
  const Layout& output() const override { return output_; }

  void bind(const Places& p) override {
    p_ = p;
    weight_ = p.parameters->weight(layer_.parameters[0]);
    if (table_.positions > 0) positions_ = p.parameters->weight(layer_.parameters[1]);
    if (table_.segments > 0) segments_ = p.parameters->weight(layer_.parameters.back());
  }

  int launches(Pass pass) const override {
    if (pass == Pass::forward) return 1;
    return pass == Pass::backward_weights
               ? 1 + (positions_ != nullptr ? 1 : 0) + (segments_ != nullptr ? 1 : 0)
               : 0;
  }

  void run(Pass pass, bool adds) override {
    if (pass == Pass::forward) return forward();
    if (pass != Pass::backward_weights) return;
    scatter(adds || p_.shared_gradients[0]);
    if (positions_ != nullptr) add_positions(adds || p_.shared_gradients[1]);
    if (segments_ != nullptr) {
      float* gradient = p_.parameters->gradient(layer_.parameters.back());
      const bool adding = adds || p_.shared_gradients.back();
      sum_rows(gradient, p_.gradient, batch_ * length_, features_, adding);
      // All tokens are of the first segment.
      if (!adding) std::fill(gradient + features_, gradient + table_.segments * features_, 0.0f);
    }
  }

 private:
  std::int32_t token(std::int64_t row) const {
    return p_.tokens[(row / length_ * streams_ + table_.stream) * length_ + row % length_];
  }

  void forward() const {
    parallel_rows(batch_ * length_, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        const float* from = weight_ + token(row) * features_;
        float* to = p_.output + row * features_;
        const std::int64_t position = row % length_ * features_;
        for (std::int64_t f = 0; f < features_; ++f) to[f] = scale_ * from[f];
        const auto add = [&](const float* values) {
          for (std::int64_t f = 0; f < features_; ++f) to[f] += values[f];
        };
        if (positions_ != nullptr) add(positions_ + position);
        if (segments_ != nullptr) add(segments_);
        if (!sines_.empty()) add(sines_.data() + position);
      }
    });
  }

  void scatter(bool adds) const {
    float* gradient = p_.parameters->gradient(layer_.parameters[0]);
    const int threads = omp_get_max_threads();
    if (!adds) {
      parallel(table_.vocabulary * features_, [&](std::int64_t first, std::int64_t last) {
        std::fill(gradient + first, gradient + last, 0.0f);
      });
    }
    parallel_rows(threads, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = 0; row < batch_ * length_; ++row) {
        const std::int32_t which = token(row);
        if (which % threads < first || which % threads >= last) continue;
        float* to = gradient + which * features_;
        const float* from = p_.gradient + row * features_;
        for (std::int64_t f = 0; f < features_; ++f) to[f] += scale_ * from[f];
      }
    });
  }

  void add_positions(bool adds) const {
    float* gradient = p_.parameters->gradient(layer_.parameters[1]);
    parallel_rows(length_, [&](std::int64_t first, std::int64_t last) {
      if (!adds) std::fill(gradient + first * features_, gradient + last * features_, 0.0f);
      for (std::int64_t n = 0; n < batch_; ++n)
        for (std::int64_t e = first * features_; e < last * features_; ++e)
          gradient[e] += p_.gradient[n * length_ * features_ + e];
    });
    if (!adds) std::fill(gradient + length_ * features_, gradient + table_.positions * features_, 0.0f);
  }

  // Sines in even and cosines in odd features, of wavelengths from 2 pi to 10,000 times that.
  void make_sines() {
    for (std::int64_t position = 0; position < length_; ++position) {
      for (std::int64_t f = 0; f < features_; ++f) {
        const double exponent = static_cast<double>(f / 2 * 2) / static_cast<double>(features_);
        const double angle = static_cast<double>(position) * std::pow(10000.0, -exponent);
        sines_.push_back(static_cast<float>(f % 2 == 0 ? std::sin(angle) : std::cos(angle)));
      }
    }
  }

  const Layer& layer_;
  const EmbeddingTable& table_;
  std::int64_t batch_, length_, streams_, features_;
  float scale_;
  Layout output_;
  std::vector<float> sines_;
  Places p_;
  float *weight_ = nullptr, *positions_ = nullptr, *segments_ = nullptr;
};

// Its one backward primitive gives the gradients of scale, shift and input, as that of a batch norm.
class LayerNorm : public Operator {
 public:
  explicit LayerNorm(const OperatorPlan& plan)
      : layer_(plan.layer),
        features_(features_of(plan.layer.output)),
        rows_(plain_layout({rows_of(plan.batch, plan.layer.output), features_})),
        output_(plan.inputs[0]),
        forward_(layer_norm_forward(rows_, layer_.epsilon, layer_.bias)),
        backward_(layer_norm_backward(rows_, layer_.epsilon, layer_.bias, forward_)) {}
  const Layout& output() const override { return output_; }
  std::int64_t scratchpad_bytes() const override {
    return static_cast<std::int64_t>(
        std::max(forward_.scratchpad_desc().get_size(), backward_.scratchpad_desc().get_size()));
  }
  std::int64_t scratch_floats() const override { return floats_of(rows_); }

  void bind(const Places& p) override {
    const Layout features = plain_layout({features_}), each = plain_layout({rows_.dims()[0]});
    const std::int64_t rows = rows_.dims()[0];
    statistics_ = Block((2 * rows + 2 * features_) * number_bytes, p.count);
    float *mean = statistics_.as(), *variance = mean + rows;
    own_ = variance + rows;
    const auto place = [&](Call::Arguments& arguments, std::size_t which, int argument, int gradient,
                           bool own) {
      if (which >= layer_.parameters.size()) return;
      const int parameter = layer_.parameters[which];
      arguments.insert({argument, memory_at(features, p.parameters->weight(parameter))});
      if (gradient == 0) return;
      gradients_[which] = p.parameters->gradient(parameter);
      float* to = own ? own_ + static_cast<std::int64_t>(which) * features_ : gradients_[which];
      arguments.insert({gradient, memory_at(features, to)});
    };
    Call::Arguments forward{{DNNL_ARG_SRC, memory_at(rows_, p.inputs[0].data)},
                            {DNNL_ARG_DST, memory_at(rows_, p.output)},
                            {DNNL_ARG_MEAN, memory_at(each, mean)},
                            {DNNL_ARG_VARIANCE, memory_at(each, variance)},
                            {DNNL_ARG_SCRATCHPAD, scratchpad_at(forward_.scratchpad_desc(), p)}};
    place(forward, 0, DNNL_ARG_SCALE, 0, false);
    place(forward, 1, DNNL_ARG_SHIFT, 0, false);
    forward_call_ = Call(dnnl::layer_normalization_forward(forward_), std::move(forward));
    InputPlace input = p.inputs[0];
    if (input.gradient == nullptr) input = {input.data, p.scratch, false};
    target_ = GradientTarget(input, p.scratch, floats_of(rows_));
    shared_ = p.shared_gradients[0];
    const auto backward = [&](bool own) {
      Call::Arguments arguments{{DNNL_ARG_SRC, memory_at(rows_, p.inputs[0].data)},
                                {DNNL_ARG_DIFF_DST, memory_at(rows_, p.gradient)},
                                {DNNL_ARG_MEAN, memory_at(each, mean)},
                                {DNNL_ARG_VARIANCE, memory_at(each, variance)},
                                {DNNL_ARG_DIFF_SRC, memory_at(rows_, target_.computed)},
                                {DNNL_ARG_SCRATCHPAD, scratchpad_at(backward_.scratchpad_desc(), p)}};
      place(arguments, 0, DNNL_ARG_SCALE, DNNL_ARG_DIFF_SCALE, own);
      place(arguments, 1, DNNL_ARG_SHIFT, DNNL_ARG_DIFF_SHIFT, own);
      return Call(dnnl::layer_normalization_backward(backward_), std::move(arguments));
    };
    setting_ = backward(false);
    adding_ = backward(true);
  }

  int launches(Pass pass) const override {
    if (pass == Pass::forward) return 1;
    return pass == Pass::backward_weights ? target_.launches() : 0;
  }

  void run(Pass pass, bool adds) override {
    if (pass == Pass::forward) return forward_call_.run();
    const bool adding = adds || shared_;
    (adding ? adding_ : setting_).run();
    for (std::size_t i = 0; adding && i < layer_.parameters.size(); ++i)
      add_to(gradients_[i], own_ + static_cast<std::int64_t>(i) * features_, features_);
    target_.finish();
  }

 private:
  const Layer& layer_;
  std::int64_t features_;
  Layout rows_, output_;
  dnnl::layer_normalization_forward::primitive_desc forward_;
  dnnl::layer_normalization_backward::primitive_desc backward_;
  Block statistics_;  // mean, variance, own gradients of scale and shift
  float* own_ = nullptr;
  float* gradients_[2] = {};
  bool shared_ = false;
  GradientTarget target_;
  Call forward_call_, setting_, adding_;
};

// Our own: the library has none without a mean.
class RmsNorm : public Operator {
 public:
  explicit RmsNorm(const OperatorPlan& plan)
      : layer_(plan.layer),
        rows_(rows_of(plan.batch, plan.layer.output)),
        features_(features_of(plan.layer.output)),
        output_(plan.inputs[0]) {}
  const Layout& output() const override { return output_; }
  void bind(const Places& p) override {
    p_ = p;
    inverse_ = Block(rows_ * number_bytes, p.count);
    gamma_ = p.parameters->weight(layer_.parameters[0]);
  }
  int launches(Pass pass) const override {
    return pass == Pass::backward_data && p_.inputs[0].gradient == nullptr ? 0 : 1;
  }
  void run(Pass pass, bool adds) override {
    const InputPlace& x = p_.inputs[0];
    switch (pass) {
      case Pass::forward:
        return rms_norm(p_.output, inverse_.as(), x.data, gamma_, layer_.epsilon, rows_, features_);
      case Pass::backward_weights:
        return sum_products(p_.parameters->gradient(layer_.parameters[0]), x.data, p_.gradient, inverse_.as(),
                            rows_, features_, adds || p_.shared_gradients[0]);
      case Pass::backward_data:
        return rms_norm_backward(x.gradient, p_.gradient, x.data, gamma_, inverse_.as(), x.adds, rows_,
                                 features_);
    }
  }

 private:
  const Layer& layer_;
  std::int64_t rows_, features_;
  Layout output_;
  Places p_;
  Block inverse_;
  float* gamma_ = nullptr;
};

class Activation : public Operator {
 public:
  explicit Activation(const OperatorPlan& plan)
      : output_(plan.inputs[0]),
        forward_(activation_forward(plan.layer.kind, plan.layer.approximate, output_)),
        backward_(activation_backward(plan.layer.kind, plan.layer.approximate, output_, forward_)) {}
  const Layout& output() const override { return output_; }
  std::int64_t scratchpad_bytes() const override {
    return static_cast<std::int64_t>(
        std::max(forward_.scratchpad_desc().get_size(), backward_.scratchpad_desc().get_size()));
  }
  std::int64_t scratch_floats() const override { return floats_of(output_); }
  void bind(const Places& p) override {
    forward_call_ = Call(dnnl::eltwise_forward(forward_),
                         {{DNNL_ARG_SRC, memory_at(output_, p.inputs[0].data)},
                          {DNNL_ARG_DST, memory_at(output_, p.output)},
                          {DNNL_ARG_SCRATCHPAD, scratchpad_at(forward_.scratchpad_desc(), p)}});
    has_data_ = p.inputs[0].gradient != nullptr;
    if (!has_data_) return;
    target_ = GradientTarget(p.inputs[0], p.scratch, floats_of(output_));
    backward_call_ = Call(dnnl::eltwise_backward(backward_),
                          {{DNNL_ARG_SRC, memory_at(output_, p.inputs[0].data)},
                           {DNNL_ARG_DIFF_DST, memory_at(output_, p.gradient)},
                           {DNNL_ARG_DIFF_SRC, memory_at(output_, target_.computed)},
                           {DNNL_ARG_SCRATCHPAD, scratchpad_at(backward_.scratchpad_desc(), p)}});
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
  Layout output_;
  dnnl::eltwise_forward::primitive_desc forward_;
  dnnl::eltwise_backward::primitive_desc backward_;
  bool has_data_ = false;
  GradientTarget target_;
  Call forward_call_, backward_call_;
};

class Dropout : public Operator {
 public:
  explicit Dropout(const OperatorPlan& plan)
      : seed_(plan.seed),
        index_(static_cast<std::uint64_t>(plan.index)),
        probability_(plan.layer.probability),
        output_(plan.inputs[0]) {}
  const Layout& output() const override { return output_; }
  void bind(const Places& p) override { p_ = p; }
  int launches(Pass pass) const override {
    return pass == Pass::forward || (pass == Pass::backward_data && p_.inputs[0].gradient != nullptr) ? 1 : 0;
  }
  void run(Pass pass, bool) override {
    const DropoutMask mask(seed_, static_cast<std::uint64_t>(*p_.draw), index_, probability_);
    const InputPlace& x = p_.inputs[0];
    const bool forward = pass == Pass::forward, adds = !forward && x.adds;
    const float* from = forward ? x.data : p_.gradient;
    float* to = forward ? p_.output : x.gradient;
    parallel(floats_of(output_), [=](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const float kept = from[i] * static_cast<float>(mask.at(i));
        to[i] = adds ? to[i] + kept : kept;
      }
    });
  }

 private:
  std::uint64_t seed_, index_;
  double probability_;
  Layout output_;
  Places p_;
};

class Multiply : public Operator {
 public:
  explicit Multiply(const OperatorPlan& plan) : output_(plan.inputs[0]), factors_(plan.inputs.size()) {}
  const Layout& output() const override { return output_; }
  std::int64_t scratch_floats() const override { return floats_of(output_); }
  void bind(const Places& p) override { p_ = p; }
  int launches(Pass pass) const override {
    const int others = static_cast<int>(factors_) - 1;
    if (pass == Pass::forward) return others;
    int wanted = 0;
    for (const InputPlace& input : p_.inputs) wanted += input.gradient != nullptr ? others : 0;
    return pass == Pass::backward_data ? wanted : 0;
  }
  void run(Pass pass, bool) override {
    const std::int64_t count = floats_of(output_);
    if (pass == Pass::forward) return product(p_.inputs[0].data, 1, factors_, p_.output, false, count);
    for (std::size_t i = 0; i < factors_; ++i)
      if (p_.inputs[i].gradient != nullptr)
        product(p_.gradient, 0, i, p_.inputs[i].gradient, p_.inputs[i].adds, count);
  }

 private:
  // Of `first` and the inputs from `from` on but for `but`.
  void product(const float* first, std::size_t from, std::size_t but, float* to, bool adds,
               std::int64_t count) const {
    std::vector<const float*> others;
    for (std::size_t i = from; i < factors_; ++i)
      if (i != but) others.push_back(p_.inputs[i].data);
    for (std::size_t i = 0; i < others.size(); ++i) {
      const bool is_last = i + 1 == others.size();
      float* result = is_last ? to : p_.scratch;
      multiply(result, first, others[i], is_last && adds, count);
      first = result;
    }
  }

  Layout output_;
  std::size_t factors_;
  Places p_;
};

class Concat : public Operator {
 public:
  explicit Concat(const OperatorPlan& plan)
      : rows_(rows_of(plan.batch, plan.layer.output)),
        width_(features_of(plan.layer.output)),
        output_(plain_layout(dims_of(plan.batch, plan.layer.output))) {
    for (const int input : plan.layer.inputs)
      widths_.push_back(features_of(plan.model.layers[static_cast<std::size_t>(input)].output));
  }
  const Layout& output() const override { return output_; }
  void bind(const Places& p) override { p_ = p; }
  int launches(Pass pass) const override {
    if (pass == Pass::forward) return static_cast<int>(widths_.size());
    int wanted = 0;
    for (const InputPlace& input : p_.inputs) wanted += input.gradient != nullptr ? 1 : 0;
    return pass == Pass::backward_data ? wanted : 0;
  }
  void run(Pass pass, bool) override {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      const InputPlace& input = p_.inputs[i];
      if (pass == Pass::forward) {
        copy_columns({p_.output, width_, offset}, {input.data, widths_[i], 0}, rows_, widths_[i], false);
      } else if (input.gradient != nullptr) {
        copy_columns({input.gradient, widths_[i], 0}, {p_.gradient, width_, offset}, rows_, widths_[i],
                     input.adds);
      }
      offset += widths_[i];
    }
  }

 private:
  std::int64_t rows_, width_;
  Layout output_;
  std::vector<std::int64_t> widths_;
  Places p_;
};

}  // namespace

std::unique_ptr<Operator> make_embedding(const OperatorPlan& plan) {
  return std::make_unique<Embedding>(plan);
}
std::unique_ptr<Operator> make_layer_norm(const OperatorPlan& plan) {
  return std::make_unique<LayerNorm>(plan);
}
std::unique_ptr<Operator> make_rms_norm(const OperatorPlan& plan) {
  return std::make_unique<RmsNorm>(plan);
}
std::unique_ptr<Operator> make_activation(const OperatorPlan& plan) {
  return std::make_unique<Activation>(plan);
}
std::unique_ptr<Operator> make_dropout(const OperatorPlan& plan) {
  return std::make_unique<Dropout>(plan);
}
std::unique_ptr<Operator> make_multiply(const OperatorPlan& plan) {
  return std::make_unique<Multiply>(plan);
}
std::unique_ptr<Operator> make_concat(const OperatorPlan& plan) {
  return std::make_unique<Concat>(plan);
}

}  // namespace foretrain::device::cpu
