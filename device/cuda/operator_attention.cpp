// Attention by products of cuBLASLt and a softmax of our own between them. Heads are laid out for the
// products first; scores are fp32. In half precision the forward pass keeps the logarithms of the softmax's
// sums alone and the backward pass makes the scores again; else it keeps the softmax.
#include <algorithm>
#include <cmath>

#include "device/cuda/attention_graph.hpp"
#include "device/cuda/operators.hpp"
#include "device/cuda/sequence.hpp"

namespace foretrain::device::cuda {
namespace {

class AttentionOperator : public Runnable {
 public:
  AttentionOperator(const Build& build, const Operator& op)
      : build_(build), op_(op), layer_(build.layer(op)), draws_(build, op) {
    const AttentionHeads& heads = layer_.attention;
    const Tensor& query = build.tensor(op.inputs[0]);
    const Tensor& key = build.tensor(op.inputs.back());
    for (const int input : op.inputs) differentiable_ |= build.tensor(input).differentiable;
    batch_ = build.options.batch;
    queries_ = query.pixels();
    keys_ = key.pixels();
    keeps_logarithms_ = lowering::fuses_attention(layer_, bytes_of(build.type));
    layouts();
    places();
    if (fuse()) return;
    products();
    softmax_ = {batch_ * heads.heads * queries_, keys_, queries_, heads.causal, draws_.of(heads.dropout)};
  }

  bool has(Pass pass) const override {
    return pass == Pass::forward || (pass == Pass::backward_data && differentiable_);
  }
  std::int64_t workspace() const override {
    if (fused_) return (is_apart_ ? scratch_ : 0) + fused_->workspace();
    return scratch_ + products_workspace_;
  }
  void bind(void* workspace) override {
    base_ = static_cast<std::byte*>(workspace);
    if (fused_) {
      bind_fused();
    } else {
      place_operands();
    }
  }
  void run(Pass pass) override {
    if (fused_) return pass == Pass::forward ? fused_forward() : fused_backward();
    pass == Pass::forward ? forward() : backward();
  }

 private:
  enum Part { q, k, v, out, dout, dq, dk, dv, scores, gradient, softmax, parts };
  enum Product { of_scores, of_out, of_dv, of_softmax, of_dq, of_dk, products_ };

  // q, k and v in the packed tensors: which input, and where in it.
  void layouts() {
    const AttentionHeads& heads = layer_.attention;
    const int repeated = heads.heads / heads.kv_heads;
    const std::int64_t d = heads.head_dim, of_q = heads.heads * d, of_k = heads.kv_heads * d;
    const std::size_t inputs = op_.inputs.size();
    source_[0] = 0;
    source_[1] = inputs == 1 ? 0 : 1;
    source_[2] = static_cast<int>(inputs) - 1;
    const std::int64_t offset[3] = {0, inputs == 1 ? of_q : 0,
                                    inputs == 1   ? of_q + of_k
                                    : inputs == 2 ? of_k
                                                  : 0};
    for (int part = 0; part < 3; ++part) {
      const Tensor& tensor = build_.tensor(op_.inputs[static_cast<std::size_t>(source_[part])]);
      layout_[part] = {batch_,         tensor.pixels(),
                       heads.heads,    part == 0 ? 1 : repeated,
                       heads.head_dim, tensor.channels,
                       offset[part],   part == 2 ? 0.0f : static_cast<float>(heads.rotary_base)};
    }
    layout_out_ = {batch_, queries_, heads.heads, 1, heads.head_dim, of_q, 0, 0};
  }

  void places() {
    const AttentionHeads& heads = layer_.attention;
    const std::int64_t all = batch_ * heads.heads, element = bytes_of(build_.type);
    const std::int64_t of_query = all * queries_ * heads.head_dim * element;
    const std::int64_t of_key = all * keys_ * heads.head_dim * element;
    const std::int64_t pairs = all * queries_ * keys_;
    const std::int64_t sizes[parts] = {of_query, of_key, of_key,    of_query,  of_query,       of_query,
                                       of_key,   of_key, pairs * 4, pairs * 4, pairs * element};
    for (int part = 0; part < parts; ++part) {
      place_[part] = scratch_;
      scratch_ += aligned(sizes[part]);
    }
  }

  bool fuse() {
    const AttentionHeads& heads = layer_.attention;
    if (!keeps_logarithms_ || heads.dropout > 0 || build_.options.deterministic) return false;
    is_apart_ = heads.rotary_base > 0 || heads.heads != heads.kv_heads;
    for (const int input : op_.inputs) is_apart_ |= !build_.tensor(input).differentiable;
    const std::int64_t d = heads.head_dim;
    const auto strides = [&](std::int64_t positions, std::int64_t channels) {
      return is_apart_ ? HeadStrides{heads.heads * positions * d, positions * d, d}
                       : HeadStrides{positions * channels, d, channels};
    };
    const HeadStrides by_q = strides(queries_, layout_[0].channels);
    const HeadStrides by_k = strides(keys_, layout_[1].channels), by_v = strides(keys_, layout_[2].channels);
    const HeadStrides by_out = strides(queries_, heads.heads * d);
    fused_ = FusedAttention::make(build_.context.cudnn,
                                  {batch_, heads.heads, queries_, keys_, d, heads.causal, build_.type, by_q,
                                   by_k, by_v, by_out, by_out, by_q, by_k, by_v},
                                  build_.context.attentions);
    if (fused_ && is_apart_) {  // no scores
      scratch_ = place_[scores];
    }
    return fused_ != nullptr;
  }

  // Where a part lies in a packed tensor at `place`.
  std::byte* packed(std::int64_t place, int part) const {
    return build_.at(place) + layout_[part].offset * bytes_of(build_.type);
  }

  void bind_fused() {
    void* logarithms = build_.at(op_.memo);
    if (is_apart_) {
      fused_->bind({at(q), at(k), at(v), at(out), logarithms, at(dout), at(dq), at(dk), at(dv)},
                   base_ + scratch_);
      return;
    }
    void *in[3], *gradients[3];
    for (int part = 0; part < 3; ++part) {
      const auto input = static_cast<std::size_t>(source_[part]);
      in[part] = packed(op_.inputs_at[input], part);
      gradients[part] = packed(op_.inputs_dx[input], part);
    }
    fused_->bind({in[0], in[1], in[2], build_.at(op_.y), logarithms, build_.at(op_.dy), gradients[0],
                  gradients[1], gradients[2]},
                 base_);
  }

  void fused_forward() {
    if (is_apart_) split_inputs();
    fused_->forward(build_.context.cudnn);
    if (is_apart_) join_heads(build_.type, layout_out_, at(out), build_.at(op_.y), stream());
  }

  void fused_backward() {
    run_sums(build_, op_);
    if (is_apart_) {
      split_inputs();
      split_heads(build_.type, layout_out_, build_.at(op_.y), at(out), stream());
      split_heads(build_.type, layout_out_, build_.at(op_.dy), at(dout), stream());
    }
    fused_->backward(build_.context.cudnn, stream());
    if (is_apart_) join_gradients();
  }

  void join_gradients() const {
    constexpr Part gradients[3] = {dq, dk, dv};
    for (int part = 0; part < 3; ++part) {
      const std::int64_t to = op_.inputs_dx[static_cast<std::size_t>(source_[part])];
      if (to != nowhere) join_heads(build_.type, layout_[part], at(gradients[part]), build_.at(to), stream());
    }
  }

  void products() {
    const AttentionHeads& heads = layer_.attention;
    const std::int64_t d = heads.head_dim;
    const float scale = 1 / std::sqrt(static_cast<float>(d));
    const Scalar type = build_.type;
    const auto problem = [&](std::int64_t rows, std::int64_t columns, std::int64_t inner, bool first,
                             bool second, Scalar result, float by) {
      MatmulProblem p{rows, columns, inner, first, second, type, result, build_.tf32};
      p.candidates = std::max(1, build_.options.plan_candidates);
      p.batches = batch_ * heads.heads;
      p.scale = by;
      return p;
    };
    const MatmulProblem problems[products_] = {
        problem(queries_, keys_, d, false, true, Scalar::f32, scale),
        problem(queries_, d, keys_, false, false, type, 1),
        problem(keys_, d, queries_, true, false, type, 1),
        problem(queries_, keys_, d, false, true, Scalar::f32, 1),
        problem(queries_, d, keys_, false, false, type, 1),
        problem(keys_, d, queries_, true, false, type, 1),
    };
    // For the search only; bind() tells the places for good.
    DeviceMemory operands(build_.context.account, scratch_);
    fill_normal(scratch_ / 4, operands.data(), Scalar::f32, 0.1f, 1, build_.context.compute);
    base_ = operands.data();
    for (int i = 0; i < products_; ++i) {
      product_[i] = std::make_unique<Matmul>(problems[i], nullptr, nullptr, nullptr, nullptr);
    }
    place_operands();
    for (const auto& product : product_) {
      product->choose(build_.context.cublas, build_.context.matmuls, build_.search, build_.context.compute);
      products_workspace_ = std::max(products_workspace_, product->workspace());
    }
    FORETRAIN_CUDA(cudaStreamSynchronize(build_.context.compute));
  }

  void place_operands() {
    const auto set = [this](Product product, Part first, Part second, Part result) {
      product_[product]->place(at(first), at(second), at(result));
    };
    set(of_scores, q, k, scores);
    set(of_out, softmax, v, out);
    set(of_dv, softmax, dout, dv);
    set(of_softmax, dout, v, gradient);
    set(of_dq, softmax, k, dq);
    set(of_dk, softmax, q, dk);
    if (!keeps_logarithms_ && layer_.attention.dropout == 0) {
      product_[of_out]->place(build_.at(op_.memo), at(v), at(out));
    }
  }

  std::byte* at(Part part) const { return base_ + place_[part]; }
  cudaStream_t stream() const { return build_.context.compute; }
  void multiply(Product product) const {
    product_[product]->run(build_.context.cublas, base_ + scratch_, stream());
  }
  void split_inputs() const {
    for (const Part part : {q, k, v}) {
      const auto input = static_cast<std::size_t>(source_[part]);
      split_heads(build_.type, layout_[part], build_.at(op_.inputs_at[input]), at(part), stream());
    }
  }

  void forward() {
    const Scalar type = build_.type;
    draws_.begin_forward(stream());
    split_inputs();
    multiply(of_scores);
    float* logarithms = keeps_logarithms_ ? reinterpret_cast<float*>(build_.at(op_.memo)) : nullptr;
    void* kept = keeps_logarithms_ ? nullptr : build_.at(op_.memo);
    const bool drops = layer_.attention.dropout > 0;
    softmax_forward(type, softmax_, reinterpret_cast<const float*>(at(scores)), kept, logarithms,
                    drops || keeps_logarithms_ ? at(softmax) : nullptr, stream());
    multiply(of_out);
    join_heads(type, layout_out_, at(out), build_.at(op_.y), stream());
  }

  void backward() {
    const Scalar type = build_.type;
    run_sums(build_, op_);
    split_inputs();
    split_heads(type, layout_out_, build_.at(op_.dy), at(dout), stream());
    const auto* of_scores_again = reinterpret_cast<const float*>(at(scores));
    const float* logarithms = nullptr;
    const void* kept = nullptr;
    if (keeps_logarithms_) {
      logarithms = reinterpret_cast<const float*>(build_.at(op_.memo));
      multiply(of_scores);
    } else {
      kept = build_.at(op_.memo);
    }
    softmax_again(type, softmax_, of_scores_again, logarithms, kept, at(softmax), stream());
    multiply(of_dv);
    multiply(of_softmax);
    softmax_backward(type, softmax_, of_scores_again, logarithms, kept,
                     reinterpret_cast<const float*>(at(gradient)),
                     1 / std::sqrt(static_cast<float>(layer_.attention.head_dim)), at(softmax), stream());
    multiply(of_dq);
    multiply(of_dk);
    join_gradients();
  }

  Build build_;
  Operator op_;
  const Layer& layer_;
  DropoutDraws draws_;
  bool differentiable_ = false, keeps_logarithms_ = false, is_apart_ = false;
  std::int64_t batch_ = 0, queries_ = 0, keys_ = 0;
  int source_[3] = {};
  HeadLayout layout_[3] = {}, layout_out_{};
  std::int64_t place_[parts] = {}, scratch_ = 0, products_workspace_ = 0;
  std::unique_ptr<Matmul> product_[products_];
  std::unique_ptr<FusedAttention> fused_;
  Softmax softmax_{};
  std::byte* base_ = nullptr;
};

}  // namespace

std::unique_ptr<Runnable> make_attention(const Build& build, const Operator& op) {
  return std::make_unique<AttentionOperator>(build, op);
}

}  // namespace foretrain::device::cuda
