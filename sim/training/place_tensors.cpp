#include "sim/training/place_tensors.hpp"

#include <algorithm>

#include "sim/training/arena.hpp"

namespace foretrain::lowering {
namespace {

// A gradient of a tensor: several tensors may share it, and it lives while any is yet to read it.
struct Gradient {
  std::int64_t place;
  int readers;
};

class Placement {
 public:
  Placement(Lowered& lowered, std::int64_t batch, int element_bytes)
      : lowered_(lowered),
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
      const bool input_needed = op.kind == LayerKind::conv2d || op.kind == LayerKind::linear ||
                                op.kind == LayerKind::batch_norm || op.kind == LayerKind::measured;
      if (input_needed) of(first_needed_, op.inputs[0]) = i;
      const bool output_needed = op.kind == LayerKind::relu ||
                                 (op.relu && (op.kind == LayerKind::conv2d || op.kind == LayerKind::linear));
      if (output_needed) of(first_needed_, op.output) = i;
    }
  }

  void forward(int i) {
    Operator& op = at(i);
    if (op.kind == LayerKind::softmax_cross_entropy) {
      op.x = of(places_, op.inputs[0]);
      op.dx = arena_.acquire(bytes(op.inputs[0]));  // its gradient is made in the forward pass
    } else {
      if (!op.forward_fused) of(places_, op.output) = acquire_output(op);
      op.y = of(places_, op.output);
      for (const int input : op.inputs) op.inputs_at.push_back(of(places_, input));
      op.x = op.inputs_at[0];
      if (op.residual >= 0) op.residual_at = of(places_, op.residual);
      const std::int64_t elements = bytes(op.output) / element_bytes_;
      if (op.kind == LayerKind::max_pool || (op.residual >= 0 && op.relu)) op.memo = arena_.acquire(elements);
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
    } else {
      const bool biased = (op.kind == LayerKind::conv2d || op.kind == LayerKind::linear) && op.relu;
      reduce_to(biased ? 2 : 1, ids, op);
      one_input(op, ids);
    }
    for (const int tensor : {op.output, op.inputs[0]}) {
      if (tensor != 0 && of(first_needed_, tensor) == i) arena_.release(of(places_, tensor));
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
      const int dx = op.kind == LayerKind::relu && exclusive(g) ? g : make_gradient(input);
      op.dx = gradient(dx).place;
      of(gradients_, input).push_back(dx);
      if (dx == g) return;
    }
    release(g);
  }

  Lowered& lowered_;
  std::int64_t batch_;
  int element_bytes_;
  ArenaPlan arena_;
  std::vector<std::int64_t> places_;
  std::vector<int> last_forward_, first_needed_;
  std::vector<std::vector<int>> gradients_;
  std::vector<Gradient> pool_;
};

}  // namespace

void place_tensors(Lowered& lowered, std::int64_t batch, int element_bytes) {
  Placement(lowered, batch, element_bytes).run();
}

}  // namespace foretrain::lowering
