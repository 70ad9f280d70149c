#include "sim/training/place_tensors.hpp"

#include <algorithm>

#include "sim/training/arena.hpp"

namespace foretrain::lowering {
namespace {

bool is_row_norm(LayerKind kind) {
  return kind == LayerKind::layer_norm || kind == LayerKind::rms_norm;
}

// Whether a gradient may be written over that of the output.
bool works_in_place(LayerKind kind) {
  return kind == LayerKind::relu || kind == LayerKind::gelu || kind == LayerKind::silu ||
         kind == LayerKind::dropout;
}

// Each input has a gradient of its own.
bool has_several_gradients(LayerKind kind) {
  return kind == LayerKind::attention || kind == LayerKind::multiply || kind == LayerKind::concat ||
         is_recurrence(kind);
}

// Inputs that the backward pass reads.
bool keeps_inputs(LayerKind kind) {
  switch (kind) {
    case LayerKind::conv2d:
    case LayerKind::linear:
    case LayerKind::batch_norm:
    case LayerKind::layer_norm:
    case LayerKind::rms_norm:
    case LayerKind::gelu:
    case LayerKind::silu:
    case LayerKind::attention:
    case LayerKind::multiply:
    case LayerKind::rnn:
    case LayerKind::lstm:
    case LayerKind::gru:
    case LayerKind::measured:
      return true;
    default:
      return false;
  }
}

bool keeps_output(const Operator& op) {
  const bool activated = op.relu && (op.kind == LayerKind::conv2d || op.kind == LayerKind::linear);
  return activated || op.kind == LayerKind::relu || op.kind == LayerKind::attention || is_recurrence(op.kind);
}

// A gradient of a tensor: several tensors may share it, and it lives while any is yet to read it.
struct Gradient {
  std::int64_t place;
  int readers;
};

class Placement {
 public:
  Placement(Lowered& lowered, const Model& model, std::int64_t batch, int element_bytes)
      : lowered_(lowered),
        model_(model),
        batch_(batch),
        element_bytes_(element_bytes),
        places_(lowered.tensors.size(), nowhere),
        last_forward_(lowered.tensors.size(), -1),
        first_needed_(lowered.tensors.size(), -1),
        gradients_(lowered.tensors.size()) {}

  void run() {
    find_lifetimes();
    const int count = static_cast<int>(lowered_.operators.size());
    for (int i = 0; i < count; ++i) forward(i);
    for (int i = count - 1; i >= 0; --i) backward(i);
    lowered_.arena_bytes = arena_.bytes();
  }

 private:
  Operator& at(int i) { return lowered_.operators[static_cast<std::size_t>(i)]; }
  template <typename T>
  static T& of(std::vector<T>& values, int tensor) {
    return values[static_cast<std::size_t>(tensor)];
  }
  std::int64_t bytes(int tensor) const {
    return lowered_.tensors[static_cast<std::size_t>(tensor)].elements() * batch_ * element_bytes_;
  }
  bool wanted(int tensor) const { return lowered_.tensors[static_cast<std::size_t>(tensor)].differentiable; }

  static std::vector<int> reads(const Operator& op) {
    std::vector<int> tensors;
    if (op.forward_fused) return tensors;
    if (op.sum_of[0] >= 0) {
      tensors = {op.sum_of[0], op.sum_of[1]};
    }
    tensors.insert(tensors.end(), op.inputs.begin(), op.inputs.end());
    if (op.residual >= 0) tensors.push_back(op.residual);
    return tensors;
  }

  // Last operator that reads a tensor in the forward pass; first in forward order whose backward pass needs
  // it.
  void find_lifetimes() {
    for (int i = static_cast<int>(lowered_.operators.size()) - 1; i >= 0; --i) {
      const Operator& op = at(i);
      for (const int tensor : reads(op)) {
        of(last_forward_, tensor) = std::max(of(last_forward_, tensor), i);
      }
      if (keeps_inputs(op.kind)) {
        for (const int input : op.inputs) of(first_needed_, input) = i;
      }
      if (keeps_output(op)) of(first_needed_, op.output) = i;
    }
  }

  // What the forward pass leaves besides its output.
  std::int64_t memo_bytes(const Operator& op) const {
    const Layer& layer = model_.layers[static_cast<std::size_t>(op.layer)];
    const Tensor& output = lowered_.tensors[static_cast<std::size_t>(op.output)];
    const std::int64_t rows = batch_ * output.pixels();
    if (op.kind == LayerKind::layer_norm) return rows * 2 * 4;
    if (op.kind == LayerKind::rms_norm) return rows * 4;
    if (op.kind == LayerKind::attention) {
      const Tensor& keys = lowered_.tensors[static_cast<std::size_t>(op.inputs.back())];
      const std::int64_t heads = layer.attention.heads;
      return fuses_attention(layer, element_bytes_) ? rows * heads * 4
                                                    : rows * heads * keys.pixels() * element_bytes_;
    }
    const bool is_marked = op.kind == LayerKind::max_pool || (op.residual >= 0 && op.relu);
    return is_marked ? batch_ * output.elements() : 0;
  }

  // The loss of a sequence: its gradient takes the place of the logits, where nothing else wants them.
  bool loss_in_place(int i, int logits) const {
    return lowered_.tensors[static_cast<std::size_t>(logits)].pixels() > 1 && logits != 0 &&
           last_forward_[static_cast<std::size_t>(logits)] == i &&
           first_needed_[static_cast<std::size_t>(logits)] < 0 &&
           places_[static_cast<std::size_t>(logits)] != nowhere;
  }

  void forward(int i) {
    Operator& op = at(i);
    if (op.kind == LayerKind::softmax_cross_entropy) {
      op.x = of(places_, op.inputs[0]);
      if (loss_in_place(i, op.inputs[0])) {
        op.dx = op.x;
        of(places_, op.inputs[0]) = nowhere;
      } else {
        op.dx = arena_.acquire(bytes(op.inputs[0]));  // its gradient is made in the forward pass
      }
    } else {
      if (!op.forward_fused) of(places_, op.output) = acquire_output(op);
      op.y = of(places_, op.output);
      for (const int input : op.inputs) op.inputs_at.push_back(of(places_, input));
      op.x = op.inputs_at[0];
      if (op.residual >= 0) op.residual_at = of(places_, op.residual);
      if (const std::int64_t kept = memo_bytes(op); kept > 0) op.memo = arena_.acquire(kept);
    }
    for (const int tensor : reads(op)) {
      const bool ends = of(last_forward_, tensor) == i && of(first_needed_, tensor) < 0;
      if (ends && tensor != 0 && of(places_, tensor) != nowhere) {
        arena_.release(of(places_, tensor));
        of(places_, tensor) = nowhere;
      }
    }
  }

  // Also places the sum that the operator makes before its own output.
  std::int64_t acquire_output(Operator& op) {
    if (op.sum_of[0] >= 0) {
      of(places_, op.inputs[0]) = arena_.acquire(bytes(op.inputs[0]));
      for (int k = 0; k < 2; ++k) op.sum_at[k] = of(places_, op.sum_of[k]);
    }
    return arena_.acquire(bytes(op.output));
  }

  int make_gradient(int tensor) {
    pool_.push_back({arena_.acquire(bytes(tensor)), 1});
    return static_cast<int>(pool_.size()) - 1;
  }
  Gradient& gradient(int id) { return pool_[static_cast<std::size_t>(id)]; }
  bool exclusive(int id) { return gradient(id).readers == 1; }
  void release(int id) {
    if (--gradient(id).readers == 0) arena_.release(gradient(id).place);
  }

  // Sums gradients until at most `most` are left.
  void reduce_to(std::size_t most, std::vector<int>& ids, Operator& op) {
    while (ids.size() > most) {
      const int a = ids[ids.size() - 2], b = ids.back();
      const int sum = exclusive(a) ? a : make_gradient(op.output);
      op.sums.push_back({gradient(a).place, gradient(b).place, gradient(sum).place});
      if (sum != a) release(a);
      release(b);
      ids.resize(ids.size() - 2);
      ids.push_back(sum);
    }
  }

  // One of `ids` that may be overwritten, else a new one; the others are released.
  int overwrite(const std::vector<int>& ids, int tensor) {
    int target = -1;
    for (const int id : ids) {
      if (target < 0 && exclusive(id)) target = id;
    }
    const bool fresh = target < 0;
    if (fresh) target = make_gradient(tensor);
    for (const int id : ids) {
      if (id != target) release(id);
    }
    return target;
  }

  void backward(int i) {
    Operator& op = at(i);
    if (op.kind == LayerKind::softmax_cross_entropy) {
      pool_.push_back({op.dx, 1});
      of(gradients_, op.inputs[0]).push_back(static_cast<int>(pool_.size()) - 1);
      return;
    }
    std::vector<int> ids = std::move(of(gradients_, op.output));
    if (op.kind == LayerKind::add) {
      pass_on(op, ids);
    } else if (op.kind == LayerKind::batch_norm) {
      batch_norm(op, ids);
    } else if (is_row_norm(op.kind)) {
      reduce_to(1, ids, op);
      op.dy = gradient(ids[0]).place;
      add_existing(op, ids[0]);
    } else if (has_several_gradients(op.kind)) {
      reduce_to(1, ids, op);
      several_inputs(op, ids[0]);
    } else {
      const bool biased = (op.kind == LayerKind::conv2d || op.kind == LayerKind::linear) && op.relu;
      reduce_to(biased ? 2 : 1, ids, op);
      one_input(op, ids);
    }
    std::vector<int> kept = op.inputs;
    kept.push_back(op.output);
    for (const int tensor : kept) {
      if (tensor == 0 || of(first_needed_, tensor) != i || of(places_, tensor) == nowhere) continue;
      arena_.release(of(places_, tensor));
      of(places_, tensor) = nowhere;
    }
    if (op.memo != nowhere) arena_.release(op.memo);
  }

  void pass_on(const Operator& op, const std::vector<int>& ids) {
    for (const int id : ids) {
      for (const int input : op.inputs) {
        if (!wanted(input)) continue;
        of(gradients_, input).push_back(id);
        ++gradient(id).readers;
      }
      release(id);
    }
  }

  void batch_norm(Operator& op, std::vector<int>& ids) {
    reduce_to(2, ids, op);
    op.dy = gradient(ids[0]).place;
    if (ids.size() == 2) op.dy2 = gradient(ids[1]).place;
    // Written where two gradients meet, or where the residual reads it after the ReLU.
    const bool written = ids.size() == 2 || (op.residual >= 0 && op.relu);
    int g = ids[0];
    if (written) {
      g = overwrite(ids, op.output);
      op.g = gradient(g).place;
    }
    if (op.residual >= 0 && wanted(op.residual)) {
      of(gradients_, op.residual).push_back(g);
      ++gradient(g).readers;
    }
    add_existing(op, g);
  }

  // Gradient of the input from that of the output, and what other readers' gradients it is added to.
  void add_existing(Operator& op, int g) {
    const int input = op.inputs[0];
    if (!wanted(input)) return release(g);
    std::vector<int>& before = of(gradients_, input);
    std::vector<int> reusable{g};
    if (!before.empty()) {
      reusable.push_back(before.back());
      op.existing = gradient(before.back()).place;
      before.pop_back();
    }
    const int dx = overwrite(reusable, input);
    op.dx = gradient(dx).place;
    before.push_back(dx);
  }

  void several_inputs(Operator& op, int g) {
    op.dy = gradient(g).place;
    for (const int input : op.inputs) {
      op.inputs_dx.push_back(nowhere);
      if (!wanted(input)) continue;
      const int dx = make_gradient(input);
      op.inputs_dx.back() = gradient(dx).place;
      of(gradients_, input).push_back(dx);
    }
    op.dx = op.inputs_dx[0];
    release(g);
  }

  void one_input(Operator& op, const std::vector<int>& ids) {
    op.dy = gradient(ids[0]).place;
    if (ids.size() == 2) op.dy2 = gradient(ids[1]).place;
    int g = ids[0];
    const bool dense = op.kind == LayerKind::conv2d || op.kind == LayerKind::linear;
    if (dense && op.relu) {
      g = overwrite(ids, op.output);
      op.g = gradient(g).place;
    }
    const int input = op.inputs[0];
    if (wanted(input)) {
      const int dx = works_in_place(op.kind) && exclusive(g) ? g : make_gradient(input);
      op.dx = gradient(dx).place;
      of(gradients_, input).push_back(dx);
      if (dx == g) return;
    }
    release(g);
  }

  Lowered& lowered_;
  const Model& model_;
  std::int64_t batch_;
  int element_bytes_;
  ArenaPlan arena_;
  std::vector<std::int64_t> places_;
  std::vector<int> last_forward_, first_needed_;
  std::vector<std::vector<int>> gradients_;
  std::vector<Gradient> pool_;
};

}  // namespace

void place_tensors(Lowered& lowered, const Model& model, std::int64_t batch, int element_bytes) {
  Placement(lowered, model, batch, element_bytes).run();
}

}  // namespace foretrain::lowering
