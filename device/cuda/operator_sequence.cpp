// Operators of sequence models by our own kernels: tables, norms over features, activations, dropout,
// products and joined branches.
#include <cmath>

#include "device/cuda/operators.hpp"
#include "device/cuda/sequence.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::cuda {
namespace {

class SequenceOperator : public Runnable {
 public:
  SequenceOperator(const Build& build, const Operator& op)
      : build_(build),
        op_(op),
        layer_(build.layer(op)),
        rows_(build.options.batch * build.tensor(op.output).pixels()),
        channels_(build.tensor(op.output).channels) {
    for (const int input : op.inputs) differentiable_ |= build.tensor(input).differentiable;
  }
  bool has(Pass pass) const override {
    return pass == Pass::forward || (pass == Pass::backward_data && differentiable_);
  }

 protected:
  cudaStream_t stream() const { return build_.context.compute; }
  std::int64_t elements() const { return rows_ * channels_; }

  Build build_;
  Operator op_;
  const Layer& layer_;
  std::int64_t rows_, channels_;
  bool differentiable_ = false;
};

class EmbeddingOperator : public SequenceOperator {
 public:
  EmbeddingOperator(const Build& build, const Operator& op) : SequenceOperator(build, op) {
    const EmbeddingTable& table = layer_.embedding;
    const Tensor& tokens = build.tensor(op.inputs[0]);
    shape_ = {build.options.batch,
              tokens.height,
              tokens.channels,
              channels_,
              table.vocabulary,
              table.stream,
              table.scaled ? std::sqrt(static_cast<float>(channels_)) : 1.0f,
              table.sinusoidal};
    std::size_t next = 0;
    weight_ = layer_.parameters[next++];
    if (table.positions > 0) positions_ = layer_.parameters[next++];
    if (table.segments > 0) segments_ = layer_.parameters[next++];
    weight_sink_ = sink_of(build, op, weight_);
    if (positions_ >= 0) positions_sink_ = sink_of(build, op, positions_);
    if (segments_ >= 0) segments_sink_ = sink_of(build, op, segments_);
  }
  bool has(Pass pass) const override { return pass != Pass::backward_data; }
  void accumulate(bool adds) override { adds_ = adds; }
  void run(Pass pass) override {
    const Build& b = build_;
    const auto* tokens = reinterpret_cast<const std::int32_t*>(b.input);
    const auto computed = [&](int parameter) {
      return parameter < 0 ? nullptr : b.parameters.computed(parameter);
    };
    if (pass == Pass::forward) {
      embedding_forward(b.type, shape_, tokens, computed(weight_), computed(positions_), computed(segments_),
                        b.at(op_.y), stream());
      return;
    }
    run_sums(b, op_);
    embedding_backward(b.type, shape_, tokens, b.at(op_.dy), accumulating(weight_sink_, adds_), workspace_,
                       stream());
    if (positions_ >= 0)
      positions_backward(b.type, shape_, b.at(op_.dy), accumulating(positions_sink_, adds_), stream());
    // All tokens belong to the first segment: the gradients of the others stay zero.
    if (segments_ >= 0) {
      bias_backward(b.type, rows_, channels_, b.at(op_.dy), nullptr, nullptr, nullptr,
                    accumulating(segments_sink_, adds_), b.reduction, stream());
    }
  }
  std::int64_t workspace() const override { return embedding_scratch_bytes(shape_); }
  void bind(void* workspace) override { workspace_ = workspace; }

 private:
  EmbeddingShape shape_{};
  int weight_ = -1, positions_ = -1, segments_ = -1;
  GradientSink weight_sink_, positions_sink_, segments_sink_;
  bool adds_ = false;
  void* workspace_ = nullptr;
};

class RowNormOperator : public SequenceOperator {
 public:
  RowNormOperator(const Build& build, const Operator& op) : SequenceOperator(build, op) {
    norm_.rows = rows_;
    norm_.channels = channels_;
    norm_.rms = layer_.kind == LayerKind::rms_norm;
    norm_.epsilon = static_cast<float>(layer_.epsilon);
    norm_.weight = build.parameters.master(layer_.parameters[0]);
    norm_.bias = layer_.bias ? build.parameters.master(layer_.parameters[1]) : nullptr;
    norm_.moments = reinterpret_cast<float*>(build.at(op.memo));
    weight_sink_ = sink_of(build, op, layer_.parameters[0]);
    if (layer_.bias) bias_sink_ = sink_of(build, op, layer_.parameters[1]);
  }
  bool has(Pass pass) const override { return pass != Pass::backward_data || differentiable_; }
  void accumulate(bool adds) override { adds_ = adds; }
  void run(Pass pass) override {
    const Build& b = build_;
    switch (pass) {
      case Pass::forward:
        row_norm_forward(b.type, norm_, b.at(op_.x), b.at(op_.y), stream());
        break;
      case Pass::backward_weights:
        run_sums(b, op_);
        row_norm_backward_weights(b.type, norm_, b.at(op_.x), b.at(op_.dy), accumulating(weight_sink_, adds_),
                                  accumulating(bias_sink_, adds_), b.reduction, stream());
        break;
      case Pass::backward_data:
        row_norm_backward_data(b.type, norm_, b.at(op_.x), b.at(op_.dy), b.at_or_null(op_.existing),
                               b.at(op_.dx), stream());
        break;
    }
  }

 private:
  RowNorm norm_{};
  GradientSink weight_sink_, bias_sink_;  // no data where there is no bias
  bool adds_ = false;
};

class ActivationOperator : public SequenceOperator {
 public:
  ActivationOperator(const Build& build, const Operator& op)
      : SequenceOperator(build, op),
        activation_(layer_.kind == LayerKind::silu ? Activation::silu
                    : layer_.approximate           ? Activation::gelu_tanh
                                                   : Activation::gelu) {}
  void run(Pass pass) override {
    const Build& b = build_;
    if (pass == Pass::forward) {
      activation_forward(b.type, activation_, elements(), b.at(op_.x), b.at(op_.y), stream());
    } else {
      run_sums(b, op_);
      activation_backward(b.type, activation_, elements(), b.at(op_.x), b.at(op_.dy), b.at(op_.dx), stream());
    }
  }

 private:
  Activation activation_;
};

class DropoutOperator : public SequenceOperator {
 public:
  DropoutOperator(const Build& build, const Operator& op) : SequenceOperator(build, op), draws_(build, op) {}
  void run(Pass pass) override {
    const Build& b = build_;
    const Dropout drops = draws_.of(layer_.probability);
    if (pass == Pass::forward) {
      draws_.begin_forward(stream());
      dropout(b.type, elements(), drops, b.at(op_.x), b.at(op_.y), stream());
    } else {
      run_sums(b, op_);
      dropout(b.type, elements(), drops, b.at(op_.dy), b.at(op_.dx), stream());
    }
  }

 private:
  DropoutDraws draws_;
};

class MultiplyOperator : public SequenceOperator {
 public:
  using SequenceOperator::SequenceOperator;
  void run(Pass pass) override {
    const Build& b = build_;
    const std::byte *first = b.at(op_.inputs_at[0]), *second = b.at(op_.inputs_at[1]);
    if (pass == Pass::forward) {
      multiply(b.type, elements(), first, second, b.at(op_.y), stream());
    } else {
      run_sums(b, op_);
      multiply_backward(b.type, elements(), b.at(op_.dy), first, second, b.at_or_null(op_.inputs_dx[0]),
                        b.at_or_null(op_.inputs_dx[1]), stream());
    }
  }
};

class ConcatOperator : public SequenceOperator {
 public:
  using SequenceOperator::SequenceOperator;
  void run(Pass pass) override {
    const Build& b = build_;
    if (pass != Pass::forward) run_sums(b, op_);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < op_.inputs.size(); ++i) {
      const std::int64_t width = b.tensor(op_.inputs[i]).channels;
      if (pass == Pass::forward) {
        copy_columns(b.type, rows_, width, b.at(op_.inputs_at[i]), width, 0, b.at(op_.y), channels_, offset,
                     stream());
      } else if (op_.inputs_dx[i] != nowhere) {
        copy_columns(b.type, rows_, width, b.at(op_.dy), channels_, offset, b.at(op_.inputs_dx[i]), width, 0,
                     stream());
      }
      offset += width;
    }
  }
};

}  // namespace

bool draws_masks(const Layer& layer) {
  if (layer.kind == LayerKind::dropout) return true;
  if (layer.kind == LayerKind::attention) return layer.attention.dropout > 0;
  return is_recurrence(layer.kind) && layer.recurrence.unrolled && layer.recurrence.dropout > 0;
}

DropoutDraws::DropoutDraws(const Build& build, const Operator& op)
    : seed_((build.options.seed * 1'000'003 + static_cast<std::uint64_t>(op.layer)) << 24),
      counter_(build.parameters.draws()) {
  for (const Operator& other : build.lowered.operators) {
    if (!draws_masks(build.layer(other))) continue;
    advances_ = other.layer == op.layer;
    return;
  }
}

GradientSink sink_of(const Build& build, const Operator& op, int parameter) {
  GradientSink sink = build.parameters.sink(parameter);
  sink.adds = is_shared_gradient(build, op, parameter);
  return sink;
}

bool is_shared_gradient(const Build& build, const Operator& op, int parameter) {
  bool later = false;
  for (const Operator& other : build.lowered.operators) {
    if (later) {
      for (const int used : build.layer(other).parameters) {
        if (used == parameter) return true;
      }
    }
    later |= other.layer == op.layer;
  }
  return false;
}

std::unique_ptr<Runnable> make_embedding(const Build& build, const Operator& op) {
  return std::make_unique<EmbeddingOperator>(build, op);
}
std::unique_ptr<Runnable> make_row_norm(const Build& build, const Operator& op) {
  return std::make_unique<RowNormOperator>(build, op);
}
std::unique_ptr<Runnable> make_activation(const Build& build, const Operator& op) {
  return std::make_unique<ActivationOperator>(build, op);
}
std::unique_ptr<Runnable> make_dropout(const Build& build, const Operator& op) {
  return std::make_unique<DropoutOperator>(build, op);
}
std::unique_ptr<Runnable> make_multiply(const Build& build, const Operator& op) {
  if (op.inputs.size() != 2)
    throw Error(ErrorKind::unavailable,
                "layer " + build.layer(op).name + ": the cuda backend multiplies two branches");
  return std::make_unique<MultiplyOperator>(build, op);
}
std::unique_ptr<Runnable> make_concat(const Build& build, const Operator& op) {
  return std::make_unique<ConcatOperator>(build, op);
}

}  // namespace foretrain::device::cuda
