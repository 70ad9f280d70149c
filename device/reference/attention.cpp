#include <algorithm>
#include <cmath>

#include "device/reference/sequence_layers.hpp"

#include "device/reference/indexing.hpp"

namespace foretrain::device::reference {
namespace {

Index place(const HeadRows& rows, Index sample, Index position, Index head, Index head_dim) {
  return (sample * rows.positions + position) * rows.stride + rows.offset + head * head_dim;
}

// Heads of q or k {batch, positions, heads, head_dim}, turned by their positions: of features i and i +
// head_dim / 2 by the angle position x base^(-2 i / head_dim), the other way round for `sign` -1.
void turn(Tensor& heads, Index positions, Index count, Index head_dim, double base, double sign) {
  if (base <= 0) return;
  const Index half = head_dim / 2;
  const Index rows = static_cast<Index>(heads.size()) / (count * head_dim);
  for (Index row = 0; row < rows; ++row) {
    for (Index i = 0; i < half; ++i) {
      const double exponent = -2 * static_cast<double>(i) / static_cast<double>(head_dim);
      const double angle = sign * static_cast<double>(row % positions) * std::pow(base, exponent);
      const double c = std::cos(angle), s = std::sin(angle);
      for (Index h = 0; h < count; ++h) {
        double& a = heads[at((row * count + h) * head_dim + i)];
        double& b = heads[at((row * count + h) * head_dim + i + half)];
        const double kept = a;
        a = kept * c - b * s;
        b = b * c + kept * s;
      }
    }
  }
}

Tensor gathered(const Tensor& from, const HeadRows& rows, Index batch, Index count, Index head_dim) {
  Tensor heads(at(batch * rows.positions * count * head_dim));
  for (Index n = 0; n < batch; ++n)
    for (Index p = 0; p < rows.positions; ++p)
      std::copy_n(from.begin() + place(rows, n, p, 0, head_dim), count * head_dim,
                  heads.begin() + (n * rows.positions + p) * count * head_dim);
  return heads;
}

void scatter(const Tensor& heads, const HeadRows& rows, Index batch, Index width, Tensor& to) {
  for (Index n = 0; n < batch; ++n)
    for (Index p = 0; p < rows.positions; ++p)
      for (Index f = 0; f < width; ++f)
        to[at(place(rows, n, p, 0, 0) + f)] += heads[at((n * rows.positions + p) * width + f)];
}

double dot(const double* a, const double* b, Index count) {
  double sum = 0;
  for (Index i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// Calls visit(sample, head, kv head, query, first key that is not seen).
template <typename Visit>
void each_query(const AttentionPlan& plan, Visit visit) {
  const Index shared = plan.heads.heads / plan.heads.kv_heads;
  for (Index n = 0; n < plan.batch; ++n)
    for (Index h = 0; h < plan.heads.heads; ++h)
      for (Index q = 0; q < plan.rows[0].positions; ++q)
        visit(n, h, h / shared, q, plan.heads.causal ? q + 1 : plan.rows[1].positions);
}

}  // namespace

AttentionPlan attention_plan(const Model& model, const Layer& layer, std::int64_t batch) {
  AttentionPlan plan;
  plan.batch = batch;
  plan.heads = layer.attention;
  const Index widths[3] = {plan.heads.heads, plan.heads.kv_heads, plan.heads.kv_heads};
  const int inputs = static_cast<int>(layer.inputs.size());
  Index offset = 0;
  for (int part = 0; part < 3; ++part) {
    const int input = std::min(part, inputs - 1);
    if (part > 0 && input != plan.input_of[part - 1]) offset = 0;
    const Shape& shape = model.layers[at(layer.inputs[at(input)])].output;
    plan.input_of[part] = input;
    plan.rows[part] = {shape[0], shape[1], offset};
    offset += widths[part] * plan.heads.head_dim;
  }
  return plan;
}

void attention_forward(const AttentionPlan& plan, const std::vector<const Tensor*>& inputs,
                       const DropoutMask& mask, Tensor& y, AttentionMemory& memory) {
  const Index d = plan.heads.head_dim, heads = plan.heads.heads, kv = plan.heads.kv_heads;
  const Index queries = plan.rows[0].positions, keys = plan.rows[1].positions;
  memory.q = gathered(*inputs[at(plan.input_of[0])], plan.rows[0], plan.batch, heads, d);
  memory.k = gathered(*inputs[at(plan.input_of[1])], plan.rows[1], plan.batch, kv, d);
  turn(memory.q, queries, heads, d, plan.heads.rotary_base, 1);
  turn(memory.k, keys, kv, d, plan.heads.rotary_base, 1);
  memory.softmax.assign(at(plan.batch * heads * queries * keys), 0.0);
  std::fill(y.begin(), y.end(), 0.0);
  const Tensor& v = *inputs[at(plan.input_of[2])];
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  each_query(plan, [&](Index n, Index h, Index g, Index q, Index seen) {
    const double* query = memory.q.data() + ((n * queries + q) * heads + h) * d;
    const Index first = ((n * heads + h) * queries + q) * keys;
    double largest = -HUGE_VAL, sum = 0;
    for (Index k = 0; k < seen; ++k) {
      double& score = memory.softmax[at(first + k)];
      score = scale * dot(query, memory.k.data() + ((n * keys + k) * kv + g) * d, d);
      largest = std::max(largest, score);
    }
    for (Index k = 0; k < seen; ++k) {
      double& score = memory.softmax[at(first + k)];
      score = std::exp(score - largest);
      sum += score;
    }
    double* out = y.data() + ((n * queries + q) * heads + h) * d;
    for (Index k = 0; k < seen; ++k) {
      memory.softmax[at(first + k)] /= sum;
      const double weight = memory.softmax[at(first + k)] * mask.at(first + k);
      const double* value = v.data() + place(plan.rows[2], n, k, g, d);
      for (Index i = 0; i < d; ++i) out[i] += weight * value[i];
    }
  });
}

void attention_backward(const AttentionPlan& plan, const std::vector<const Tensor*>& inputs,
                        const DropoutMask& mask, const Tensor& dy, const AttentionMemory& memory,
                        const std::vector<Tensor*>& gradients) {
  const Index d = plan.heads.head_dim, heads = plan.heads.heads, kv = plan.heads.kv_heads;
  const Index queries = plan.rows[0].positions, keys = plan.rows[1].positions;
  const Tensor& v = *inputs[at(plan.input_of[2])];
  Tensor& dv = *gradients[at(plan.input_of[2])];
  Tensor dq(memory.q.size()), dk(memory.k.size()), flows(at(keys));
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  each_query(plan, [&](Index n, Index h, Index g, Index q, Index seen) {
    const Index first = ((n * heads + h) * queries + q) * keys;
    const double* out = dy.data() + ((n * queries + q) * heads + h) * d;
    double along = 0;
    for (Index k = 0; k < seen; ++k) {
      const Index value = place(plan.rows[2], n, k, g, d);
      const double kept = mask.at(first + k), p = memory.softmax[at(first + k)];
      flows[at(k)] = kept * dot(out, v.data() + value, d);
      along += flows[at(k)] * p;
      for (Index i = 0; i < d; ++i) dv[at(value + i)] += kept * p * out[i];
    }
    const Index query = ((n * queries + q) * heads + h) * d;
    for (Index k = 0; k < seen; ++k) {
      const double score = scale * memory.softmax[at(first + k)] * (flows[at(k)] - along);
      const Index key = ((n * keys + k) * kv + g) * d;
      for (Index i = 0; i < d; ++i) {
        dq[at(query + i)] += score * memory.k[at(key + i)];
        dk[at(key + i)] += score * memory.q[at(query + i)];
      }
    }
  });
  turn(dq, queries, heads, d, plan.heads.rotary_base, -1);
  turn(dk, keys, kv, d, plan.heads.rotary_base, -1);
  scatter(dq, plan.rows[0], plan.batch, heads * d, *gradients[at(plan.input_of[0])]);
  scatter(dk, plan.rows[1], plan.batch, kv * d, *gradients[at(plan.input_of[1])]);
}

}  // namespace foretrain::device::reference
