#include "sim/training/lowering.hpp"

#include <algorithm>
#include <string>

#include "sim/base/error.hpp"
#include "sim/training/place_tensors.hpp"

namespace foretrain::lowering {
namespace {

Tensor tensor_of(const Shape& shape) {
  Tensor tensor;
  tensor.channels = shape.empty() ? 1 : shape[0];
  if (shape.size() == 2) {
    tensor.channels = shape[1];
    tensor.height = shape[0];
  } else if (shape.size() == 3) {
    tensor.height = shape[1];
    tensor.width = shape[2];
  } else {
    tensor.channels = element_count(shape);
  }
  return tensor;
}

class Fuser {
 public:
  explicit Fuser(const Model& model)
      : model_(model), readers_(model.layers.size()), done_(model.layers.size()) {
    for (std::size_t i = 1; i < model.layers.size(); ++i) {
      for (const int input : model.layers[i].inputs) {
        readers_[static_cast<std::size_t>(input)].push_back(static_cast<int>(i));
      }
    }
  }

  Lowered run() {
    value_.assign(model_.layers.size(), -1);
    lowered_.tensors.push_back(tensor_of(model_.layers[0].output));
    value_[0] = 0;
    for (std::size_t i = 1; i < model_.layers.size(); ++i) {
      if (!done_[i]) visit(static_cast<int>(i));
    }
    mark_differentiable();
    return std::move(lowered_);
  }

 private:
  const Layer& layer(int index) const { return model_.layers[static_cast<std::size_t>(index)]; }

  // The only reader of a layer's output, or -1.
  int only_reader(int index) const {
    const auto& readers = readers_[static_cast<std::size_t>(index)];
    return readers.size() == 1 ? readers[0] : -1;
  }
  int relu_after(int index) const {
    const int reader = only_reader(index);
    return reader >= 0 && layer(reader).kind == LayerKind::relu ? reader : -1;
  }
  // The two-input addition that alone reads `index`, or -1.
  int add_after(int index) const {
    const int reader = only_reader(index);
    return reader >= 0 && layer(reader).kind == LayerKind::add && layer(reader).inputs.size() == 2 &&
                   layer(reader).inputs[0] != layer(reader).inputs[1]
               ? reader
               : -1;
  }
  // The batch norm that is fused into the addition: its first input that is one.
  int batch_norm_of(int addition) const {
    for (const int input : layer(addition).inputs) {
      if (layer(input).kind == LayerKind::batch_norm && add_after(input) == addition) return input;
    }
    return -1;
  }

  int output_tensor(int index) {
    lowered_.tensors.push_back(tensor_of(layer(index).output));
    const int tensor = static_cast<int>(lowered_.tensors.size()) - 1;
    value_[static_cast<std::size_t>(index)] = tensor;
    return tensor;
  }
  int value(int index) const { return value_[static_cast<std::size_t>(index)]; }
  void skip(int index) { done_[static_cast<std::size_t>(index)] = true; }

  void visit(int index) {
    const Layer& at = layer(index);
    switch (at.kind) {
      case LayerKind::flatten:  // the same elements; linear knows their order
        value_[static_cast<std::size_t>(index)] = value(at.inputs[0]);
        return;
      case LayerKind::batch_norm:
        if (const int addition = add_after(index); addition >= 0 && batch_norm_of(addition) == index) {
          return;  // runs where the addition stands
        }
        return push_batch_norm(index, -1);
      case LayerKind::add:
        if (const int norm = batch_norm_of(index); norm >= 0) return push_batch_norm(norm, index);
        return push(index, index);
      case LayerKind::conv2d:
      case LayerKind::linear: {
        const int relu = at.bias ? relu_after(index) : -1;
        if (relu >= 0) skip(relu);
        return push(index, relu >= 0 ? relu : index);
      }
      default:
        return push(index, index);
    }
  }

  // `last`: the layer whose output the operator makes.
  void push(int index, int last) {
    Operator op;
    op.kind = layer(index).kind;
    op.layer = index;
    for (const int input : layer(index).inputs) op.inputs.push_back(value(input));
    op.relu = last != index;
    op.output = output_tensor(last);
    lowered_.operators.push_back(std::move(op));
  }

  void push_batch_norm(int index, int addition) {
    Operator op;
    op.kind = LayerKind::batch_norm;
    op.layer = index;
    op.inputs = {value(layer(index).inputs[0])};
    int last = index;
    if (addition >= 0) {
      const auto& summands = layer(addition).inputs;
      op.residual = value(summands[0] == index ? summands[1] : summands[0]);
      last = addition;
      skip(addition);
    }
    if (const int relu = relu_after(last); relu >= 0) {
      op.relu = true;
      last = relu;
      skip(relu);
    }
    fuse_sum(op);
    op.output = output_tensor(last);
    lowered_.operators.push_back(std::move(op));
  }

  // An addition of two tensors whose sum nothing has read yet is made by this batch norm's first pass.
  void fuse_sum(Operator& norm) {
    const int x = norm.inputs[0];
    Operator* sum = nullptr;
    for (Operator& earlier : lowered_.operators) {
      if (earlier.output == x) sum = &earlier;
      const auto reads = std::count(earlier.inputs.begin(), earlier.inputs.end(), x);
      if (reads || earlier.residual == x) return;
    }
    if (!sum || sum->kind != LayerKind::add || sum->inputs.size() != 2 || norm.residual == x) return;
    sum->forward_fused = true;
    norm.sum_of[0] = sum->inputs[0];
    norm.sum_of[1] = sum->inputs[1];
  }

  void mark_differentiable() {
    for (Operator& op : lowered_.operators) {
      bool wanted = !layer(op.layer).parameters.empty();
      for (const int input : op.inputs)
        wanted |= lowered_.tensors[static_cast<std::size_t>(input)].differentiable;
      if (op.residual >= 0) wanted |= lowered_.tensors[static_cast<std::size_t>(op.residual)].differentiable;
      lowered_.tensors[static_cast<std::size_t>(op.output)].differentiable = wanted;
    }
  }

  const Model& model_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> done_;
  std::vector<int> value_;
  Lowered lowered_;
};

}  // namespace

bool fuses_attention(const Layer& layer, int element_bytes) {
  constexpr int largest_head = 128, word = 8;  // of the library's kernels
  return element_bytes == 2 && layer.attention.head_dim <= largest_head &&
         layer.attention.head_dim % word == 0;
}

std::int64_t recurrence_reserve_bytes(const Layer& layer, std::int64_t sequence, std::int64_t batch,
                                      int element_bytes) {
  const RecurrentStack& stack = layer.recurrence;
  const std::int64_t kept = gates_of(layer.kind) + states_of(layer.kind);  // of a position, times hidden
  return kept * stack.hidden * stack.layers * stack.directions() * sequence * batch * element_bytes;
}

Lowered lower(const Model& model, std::int64_t batch, int element_bytes) {
  if (!model.is_graph()) {
    throw Error(ErrorKind::unavailable,
                "model " + model.name + " is a list of parameters without layers: there is nothing to run");
  }
  Lowered lowered = Fuser(model).run();
  place_tensors(lowered, model, batch, element_bytes);
  return lowered;
}

}  // namespace foretrain::lowering
