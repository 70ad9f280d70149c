#include "device/reference/sequence_passes.hpp"

#include <algorithm>

namespace foretrain::device::reference {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

const Tensor& parameter(const Layer& layer, std::size_t which, const PassData& data) {
  static const Tensor none;
  return which < layer.parameters.size() ? data.weights[at(layer.parameters[which])] : none;
}

std::vector<const Tensor*> parameters_of(const Layer& layer, const PassData& data) {
  std::vector<const Tensor*> all;
  for (const int index : layer.parameters) all.push_back(&data.weights[at(index)]);
  return all;
}

// Of positions and segments: a table that is not there has no place among the parameters.
std::size_t segments_place(const Layer& layer) {
  return layer.embedding.positions > 0 ? 2 : 1;
}

template <typename T>
std::vector<T*> of_inputs(const Layer& layer, std::vector<Tensor>& values) {
  std::vector<T*> all;
  for (const int input : layer.inputs) all.push_back(&values[at(input)]);
  return all;
}

Activation activation(const Layer& layer, double x) {
  return layer.kind == LayerKind::silu ? silu(x) : gelu(x, layer.approximate);
}

void multiply_forward(const Layer& layer, const PassData& data, Tensor& y) {
  std::fill(y.begin(), y.end(), 1.0);
  for (const int input : layer.inputs)
    for (std::size_t e = 0; e < y.size(); ++e) y[e] *= data.outputs[at(input)][e];
}

void multiply_backward(const Layer& layer, const PassData& data, const Tensor& dy) {
  for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
    Tensor& dx = data.gradients[at(layer.inputs[i])];
    for (std::size_t e = 0; e < dy.size(); ++e) {
      double flow = dy[e];
      for (std::size_t j = 0; j < layer.inputs.size(); ++j)
        if (j != i) flow *= data.outputs[at(layer.inputs[j])][e];
      dx[e] += flow;
    }
  }
}

// Calls visit(input layer, its element, the output's element).
template <typename Visit>
void each_part(const Layer& layer, const Model& model, std::int64_t rows, Visit visit) {
  const std::int64_t width = layer.output.back();
  std::int64_t offset = 0;
  for (const int input : layer.inputs) {
    const std::int64_t features = model.layers[at(input)].output.back();
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t f = 0; f < features; ++f)
        visit(input, at(row * features + f), at(row * width + offset + f));
    offset += features;
  }
}

}  // namespace

SequencePasses::SequencePasses(const Model& model, std::int64_t batch, std::uint64_t seed)
    : model_(model), batch_(batch), seed_(seed), memory_(model.layers.size()) {}

bool SequencePasses::runs(LayerKind kind) {
  return kind >= LayerKind::embedding && kind < LayerKind::measured;
}

DropoutMask SequencePasses::mask(int index, double probability, const PassData& data) const {
  return {seed_, data.draw, static_cast<std::uint64_t>(index), probability};
}

// The tokens of the stream that an embedding reads.
std::vector<std::int32_t> SequencePasses::stream(const Layer& layer, const PassData& data) const {
  const std::int64_t length = model_.sequence, streams = element_count(model_.input) / length;
  std::vector<std::int32_t> tokens;
  for (std::int64_t n = 0; n < batch_; ++n) {
    const auto first = data.tokens.begin() + (n * streams + layer.embedding.stream) * length;
    tokens.insert(tokens.end(), first, first + length);
  }
  return tokens;
}

RecurrencePlan SequencePasses::plan_of(const Layer& layer) const {
  const Shape& in = layer_at(layer.inputs[0]).output;
  return {layer.kind, layer.recurrence, batch_, in[0], in[1]};
}

void SequencePasses::forward(int index, const PassData& data) {
  const Layer& layer = layer_at(index);
  Memory& memory = memory_[at(index)];
  const Tensor& x = data.outputs[at(layer.inputs[0])];
  Tensor& y = data.outputs[at(index)];
  switch (layer.kind) {
    case LayerKind::embedding: {
      const std::size_t segments = segments_place(layer);
      static const Tensor none;
      return embedding_forward(rows_of(index), layer.embedding, stream(layer, data),
                               parameter(layer, 0, data), segments > 1 ? parameter(layer, 1, data) : none,
                               parameter(layer, segments, data), y);
    }
    case LayerKind::layer_norm:
    case LayerKind::rms_norm:
      return row_norm_forward(rows_of(index), layer.kind == LayerKind::layer_norm, layer.epsilon, x,
                              parameter(layer, 0, data), parameter(layer, 1, data), y, memory.statistics);
    case LayerKind::gelu:
    case LayerKind::silu:
      std::transform(x.begin(), x.end(), y.begin(), [&](double v) { return activation(layer, v).value; });
      return;
    case LayerKind::dropout: {
      const DropoutMask kept = mask(index, layer.probability, data);
      for (std::size_t e = 0; e < y.size(); ++e) y[e] = x[e] * kept.at(static_cast<std::int64_t>(e));
      return;
    }
    case LayerKind::attention:
      return attention_forward(attention_plan(model_, layer, batch_),
                               of_inputs<const Tensor>(layer, data.outputs),
                               mask(index, layer.attention.dropout, data), y, memory.attention);
    case LayerKind::multiply:
      return multiply_forward(layer, data, y);
    case LayerKind::concat:
      return each_part(
          layer, model_, rows_of(index).rows(),
          [&](int input, std::size_t from, std::size_t to) { y[to] = data.outputs[at(input)][from]; });
    default: {
      static const Tensor zero;
      return recurrence_forward(plan_of(layer), parameters_of(layer, data), x,
                                layer.inputs.size() > 1 ? data.outputs[at(layer.inputs[1])] : zero,
                                mask(index, layer.recurrence.dropout, data), y, memory.recurrence);
    }
  }
}

void SequencePasses::backward_data(int index, const PassData& data) {
  const Layer& layer = layer_at(index);
  Memory& memory = memory_[at(index)];
  const Tensor& x = data.outputs[at(layer.inputs[0])];
  const Tensor& dy = data.gradients[at(index)];
  Tensor& dx = data.gradients[at(layer.inputs[0])];
  switch (layer.kind) {
    case LayerKind::layer_norm:
    case LayerKind::rms_norm:
      return row_norm_backward_data(rows_of(index), layer.kind == LayerKind::layer_norm, x, dy,
                                    parameter(layer, 0, data), memory.statistics, dx);
    case LayerKind::gelu:
    case LayerKind::silu:
      for (std::size_t e = 0; e < dy.size(); ++e) dx[e] += dy[e] * activation(layer, x[e]).slope;
      return;
    case LayerKind::dropout: {
      const DropoutMask kept = mask(index, layer.probability, data);
      for (std::size_t e = 0; e < dy.size(); ++e) dx[e] += dy[e] * kept.at(static_cast<std::int64_t>(e));
      return;
    }
    case LayerKind::attention:
      return attention_backward(attention_plan(model_, layer, batch_),
                                of_inputs<const Tensor>(layer, data.outputs),
                                mask(index, layer.attention.dropout, data), dy, memory.attention,
                                of_inputs<Tensor>(layer, data.gradients));
    case LayerKind::multiply:
      return multiply_backward(layer, data, dy);
    case LayerKind::concat:
      return each_part(
          layer, model_, rows_of(index).rows(),
          [&](int input, std::size_t from, std::size_t to) { data.gradients[at(input)][from] += dy[to]; });
    default:
      break;
  }
  if (!is_recurrence(layer.kind)) return;  // an embedding: tokens have no gradient
  for (std::size_t e = 0; e < dx.size(); ++e) dx[e] += memory.gradients.x[e];
  if (layer.inputs.size() < 2) return;
  Tensor& first = data.gradients[at(layer.inputs[1])];
  for (std::size_t e = 0; e < first.size(); ++e) first[e] += memory.gradients.first[e];
}

std::vector<Tensor> SequencePasses::backward_weights(int index, const PassData& data) {
  const Layer& layer = layer_at(index);
  Memory& memory = memory_[at(index)];
  const Tensor& x = data.outputs[at(layer.inputs[0])];
  const Tensor& dy = data.gradients[at(index)];
  if (is_recurrence(layer.kind)) {
    memory.gradients =
        recurrence_backward(plan_of(layer), parameters_of(layer, data),
                            mask(index, layer.recurrence.dropout, data), dy, memory.recurrence);
    return memory.gradients.parameters;
  }
  std::vector<Tensor> out;
  for (const int each : layer.parameters) out.emplace_back(data.weights[at(each)].size());
  out.resize(3);
  if (layer.kind == LayerKind::embedding) {
    if (layer.embedding.positions == 0) std::swap(out[1], out[2]);
    embedding_backward_weights(rows_of(index), layer.embedding, stream(layer, data), dy, out[0], out[1],
                               out[2]);
    if (layer.embedding.positions == 0) std::swap(out[1], out[2]);
  } else {
    row_norm_backward_weights(rows_of(index), x, dy, memory.statistics, out[0], out[1]);
  }
  out.resize(layer.parameters.size());
  return out;
}

}  // namespace foretrain::device::reference
