// Sums, relus, changes of shape and the loss: one loop each.
#include <algorithm>
#include <cmath>

#include "device/cpu/operators.hpp"
#include "device/cpu/row_loops.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::cpu {
namespace {

class Relu : public Operator {
 public:
  explicit Relu(const OperatorPlan& plan) : layout_(plan.inputs[0]) {}
  const Layout& output() const override { return layout_; }
  void bind(const Places& p) override { p_ = p; }
  int launches(Pass pass) const override {
    return pass == Pass::forward || (pass == Pass::backward_data && p_.inputs[0].gradient != nullptr) ? 1 : 0;
  }
  void run(Pass pass, bool) override {
    const std::int64_t count = floats_of(layout_);
    const InputPlace& input = p_.inputs[0];
    if (pass == Pass::forward) return relu(p_.output, input.data, count);
    relu_backward(input.gradient, p_.gradient, p_.output, input.adds, count);
  }

 private:
  Layout layout_;
  Places p_;
};

// Inputs that lie otherwise than the first are put in its order first.
class Add : public Operator {
 public:
  explicit Add(const OperatorPlan& plan) : layouts_(plan.inputs), relu_(plan.relu) {}
  const Layout& output() const override { return layouts_[0]; }
  std::int64_t scratch_floats() const override {
    std::int64_t most = 0;
    for (const Layout& layout : layouts_) most = std::max(most, floats_of(layout));
    return most;
  }

  void bind(const Places& p) override {
    p_ = p;
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
      const InputPlace& input = p.inputs[i];
      terms_.push_back(input.data);
      if (layouts_[i] == output()) continue;
      others_.emplace_back(floats_of(output()) * static_cast<std::int64_t>(sizeof(float)), p.count);
      terms_.back() = others_.back().as();
      before_.push_back(reorder(layouts_[i], input.data, output(), terms_.back()));
    }
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
      const InputPlace& input = p.inputs[i];
      // Where the input's gradient is the output's there is nothing to do.
      if (input.gradient == nullptr || input.gradient == p.gradient) continue;
      backward_.push_back(reorder(output(), p.gradient, layouts_[i], input.gradient, input.adds));
    }
  }

  int launches(Pass pass) const override {
    if (pass == Pass::forward) return static_cast<int>(before_.size() + terms_.size()) - 1;
    return pass == Pass::backward_data ? static_cast<int>(backward_.size()) : 0;
  }

  void run(Pass pass, bool) override {
    if (pass == Pass::backward_data) {
      for (const Call& call : backward_) call.run();
      return;
    }
    for (const Call& call : before_) call.run();
    const std::int64_t count = floats_of(output());
    const float* sum = terms_[0];
    for (std::size_t i = 1; i < terms_.size(); ++i) {
      add(p_.output, sum, terms_[i], relu_ && i + 1 == terms_.size(), count);
      sum = p_.output;
    }
  }

 private:
  std::vector<Layout> layouts_;
  bool relu_;
  Places p_;
  std::vector<float*> terms_;
  std::vector<Block> others_;
  std::vector<Call> before_, backward_;
};

// To rows as C has them.
class Flatten : public Operator {
 public:
  explicit Flatten(const OperatorPlan& plan)
      : source_(plan.inputs[0]),
        ordered_(plain_layout(source_.dims())),
        output_(plain_layout({plan.batch, element_count(plan.layer.output)})) {}
  const Layout& output() const override { return output_; }
  void bind(const Places& p) override {
    forward_ = reorder(source_, p.inputs[0].data, ordered_, p.output);
    has_data_ = p.inputs[0].gradient != nullptr;
    if (has_data_) backward_ = reorder(ordered_, p.gradient, source_, p.inputs[0].gradient, p.inputs[0].adds);
  }
  int launches(Pass pass) const override {
    return pass == Pass::forward || (pass == Pass::backward_data && has_data_) ? 1 : 0;
  }
  void run(Pass pass, bool) override { (pass == Pass::forward ? forward_ : backward_).run(); }

 private:
  Layout source_, ordered_, output_;
  Call forward_, backward_;
  bool has_data_ = false;
};

// The gradient of the logits is computed with the loss.
class Loss : public Operator {
 public:
  explicit Loss(const OperatorPlan& plan)
      : rows_(plan.batch * plan.model.targets()), classes_(plan.model.classes), output_(plain_layout({1})) {}
  const Layout& output() const override { return output_; }
  void bind(const Places& p) override {
    p_ = p;
    losses_.resize(static_cast<std::size_t>(rows_));
  }
  int launches(Pass pass) const override { return pass == Pass::forward ? 1 : 0; }

  void run(Pass, bool) override {
    const std::int64_t ignored = std::count(p_.labels, p_.labels + rows_, -1);
    const auto counted = static_cast<float>(std::max<std::int64_t>(1, rows_ - ignored));
    parallel_rows(rows_, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t n = first; n < last; ++n)
        losses_[static_cast<std::size_t>(n)] = row(
            p_.inputs[0].data + n * classes_, p_.inputs[0].gradient + n * classes_, p_.labels[n], counted);
    });
    double sum = 0;
    for (const double loss : losses_) sum += loss;
    *p_.loss = sum / static_cast<double>(counted);
  }

 private:
  double row(const float* x, float* dx, std::int32_t label, float counted) const {
    if (label < 0) {
      std::fill_n(dx, classes_, 0.0f);
      return 0;
    }
    const auto [largest, sum] = exponentials(dx, x, classes_);
    scale_by(dx, static_cast<float>(1 / (sum * static_cast<double>(counted))), classes_);
    dx[label] -= 1 / counted;
    return std::log(sum) + static_cast<double>(largest - x[label]);
  }

  std::int64_t rows_, classes_;
  Layout output_;
  Places p_;
  std::vector<double> losses_;
};

}  // namespace

Dims dims_of(std::int64_t batch, const Shape& shape) {
  Dims dims{batch};
  dims.insert(dims.end(), shape.begin(), shape.end());
  return dims;
}

dnnl::memory scratchpad_at(const Layout& layout, const Places& places) {
  return memory_at(layout, reinterpret_cast<float*>(places.scratchpad));
}

std::int64_t features_of(const Shape& shape) {
  return shape.back();
}

std::int64_t rows_of(std::int64_t batch, const Shape& shape) {
  return batch * element_count(shape) / shape.back();
}

std::unique_ptr<Operator> make_relu(const OperatorPlan& plan) {
  return std::make_unique<Relu>(plan);
}
std::unique_ptr<Operator> make_add(const OperatorPlan& plan) {
  return std::make_unique<Add>(plan);
}
std::unique_ptr<Operator> make_flatten(const OperatorPlan& plan) {
  return std::make_unique<Flatten>(plan);
}
std::unique_ptr<Operator> make_loss(const OperatorPlan& plan) {
  return std::make_unique<Loss>(plan);
}

std::unique_ptr<Operator> make_operator(const OperatorPlan& plan) {
  switch (plan.layer.kind) {
    case LayerKind::conv2d:
      return make_convolution(plan);
    case LayerKind::linear:
      return make_linear(plan);
    case LayerKind::batch_norm:
      return make_batch_norm(plan);
    case LayerKind::max_pool:
    case LayerKind::avg_pool:
    case LayerKind::global_pool:
      return make_pool(plan);
    case LayerKind::relu:
      return make_relu(plan);
    case LayerKind::add:
      return make_add(plan);
    case LayerKind::flatten:
      return make_flatten(plan);
    case LayerKind::softmax_cross_entropy:
      return make_loss(plan);
    case LayerKind::embedding:
      return make_embedding(plan);
    case LayerKind::layer_norm:
      return make_layer_norm(plan);
    case LayerKind::rms_norm:
      return make_rms_norm(plan);
    case LayerKind::gelu:
    case LayerKind::silu:
      return make_activation(plan);
    case LayerKind::dropout:
      return make_dropout(plan);
    case LayerKind::multiply:
      return make_multiply(plan);
    case LayerKind::concat:
      return make_concat(plan);
    case LayerKind::attention:
      return make_attention(plan);
    case LayerKind::rnn:
    case LayerKind::lstm:
    case LayerKind::gru:
      return plan.layer.recurrence.unrolled ? make_unrolled(plan) : make_recurrence(plan);
    case LayerKind::input:
    case LayerKind::measured:
      break;
  }
  throw Error(ErrorKind::unavailable, std::string("the cpu backend runs no ") + name_of(plan.layer.kind) +
                                          " (layer '" + plan.layer.name + "')");
}

}  // namespace foretrain::device::cpu
