// rnn, lstm and gru by the library's fused primitives: one call a layer of the stack, both directions in it.
// All gradients come from one backward primitive: the pass backward_weights.
#include <deque>

#include "device/cpu/operators.hpp"
#include "device/cpu/recurrent_rows.hpp"
#include "device/cpu/row_loops.hpp"

namespace foretrain::device::cpu {
namespace {

constexpr std::int64_t number_bytes = sizeof(float);

// A layer of the stack.
struct Stage {
  RecurrenceShape shape;
  RecurrencePrimitives primitives;
  // Weights as a parameter has them, of both directions, gates in the library's order, and as the forward
  // primitive reads them; their gradients in both ways.
  Block plain[2], packed[2], gradient[2], plain_gradient[2], bias, bias_gradient;
  Block result, dropped, workspace;
  Block first[2], last[2], d_first[2], d_last[2];  // h, c {directions, batch, hidden}
  Call pack[2], unpack[2], forward, backward;
};

class Recurrence : public Operator {
 public:
  explicit Recurrence(const OperatorPlan& plan)
      : layer_(plan.layer),
        sizes_(plan),
        seed_(plan.seed),
        index_(static_cast<std::uint64_t>(plan.index)),
        output_(plain_layout(dims_of(plan.batch, plan.layer.output))) {
    for (int l = 0; l < sizes_.stack.layers; ++l) {
      Stage& stage = stages_.emplace_back();
      stage.shape = {sizes_.kind,        sizes_.steps,    sizes_.batch,
                     sizes_.width_of(l), sizes_.hidden(), sizes_.directions()};
      stage.primitives = recurrence_primitives(stage.shape);
    }
  }
  const Layout& output() const override { return output_; }
  std::int64_t scratchpad_bytes() const override {
    std::int64_t most = 0;
    for (const Stage& stage : stages_) {
      const RecurrencePrimitives& p = stage.primitives;
      for (const Layout& each : {p.forward_scratchpad, p.backward_scratchpad})
        most = std::max(most, static_cast<std::int64_t>(each.get_size()));
    }
    return most;
  }
  // Gradients of a stage's result and of its input, in turns.
  std::int64_t scratch_floats() const override { return 2 * widest_floats(); }

  void bind(const Places& p) override {
    p_ = p;
    in_ = Block(sizes_.steps * sizes_.batch * sizes_.width * number_bytes, p.count);
    for (std::size_t l = 0; l < stages_.size(); ++l) bind_stage(static_cast<int>(l));
  }

  int launches(Pass pass) const override {
    const int stages = static_cast<int>(stages_.size());
    const int drops = sizes_.stack.dropout > 0 ? stages - 1 : 0;
    const int states = sizes_.stack.gives_state ? stages * sizes_.states() : 0;
    const int begins = p_.inputs.size() > 1 ? stages * sizes_.states() : 0;
    if (pass == Pass::forward) return stages + drops + begins + (states > 0 ? states : 1) + 1;
    if (pass != Pass::backward_weights) return 0;
    return 6 * stages + drops + begins + (states > 0 ? states : 1) + (wants_data() ? 1 : 0);
  }
  void refresh() override {
    for (std::size_t l = 0; l < stages_.size(); ++l) take_weights(static_cast<int>(l));
  }
  int refresh_launches() const override { return 5 * static_cast<int>(stages_.size()); }

  void run(Pass pass, bool adds) override { pass == Pass::forward ? forward() : backward(adds); }

 private:
  bool wants_data() const { return p_.inputs[0].gradient != nullptr; }
  std::int64_t widest_floats() const {
    return sizes_.steps * sizes_.batch * std::max(sizes_.width, sizes_.result_width());
  }
  Stage& stage(int l) { return stages_[static_cast<std::size_t>(l)]; }
  // The gradients of a layer's result and of what it reads: the latter is the former of the layer before.
  float* above(int l) const { return p_.scratch + (l % 2) * widest_floats(); }
  float* below(int l) const { return p_.scratch + ((l + 1) % 2) * widest_floats(); }
  float* input_of(int l) {
    if (l == 0) return in_.as();
    return sizes_.drops_after(l - 1) ? stage(l - 1).dropped.as() : stage(l - 1).result.as();
  }
  DropoutMask mask() const {
    return {seed_, static_cast<std::uint64_t>(*p_.draw), index_, sizes_.stack.dropout};
  }

  void bind_stage(int l) {
    Stage& s = stage(l);
    const RecurrenceShape& shape = s.shape;
    const auto block = [&](const Layout& layout) {
      return Block(static_cast<std::int64_t>(layout.get_size()), p_.count);
    };
    Layout packed[2], plain[2];
    for (int i = 0; i < 2; ++i) {
      const std::int64_t inputs = i == 0 ? shape.width : shape.hidden;
      packed[i] = shape.weights(inputs, false);
      plain[i] = shape.weights(inputs, true);
      s.plain[i] = block(plain[i]);
      s.packed[i] = block(packed[i]);
      s.gradient[i] = block(packed[i]);
      s.plain_gradient[i] = block(plain[i]);
      s.pack[i] = reorder(plain[i], s.plain[i].as(), packed[i], s.packed[i].as());
      s.unpack[i] = reorder(packed[i], s.gradient[i].as(), plain[i], s.plain_gradient[i].as());
    }
    s.bias = block(shape.bias());
    s.bias_gradient = block(shape.bias());
    s.result = block(shape.result());
    if (sizes_.drops_after(l)) s.dropped = block(shape.result());
    s.workspace = block(s.primitives.workspace);
    for (int state = 0; state < sizes_.states(); ++state)
      for (Block* each : {s.first, s.last, s.d_first, s.d_last}) each[state] = block(shape.states());

    Call::Arguments common{{DNNL_ARG_SRC_LAYER, memory_at(shape.source(), input_of(l))},
                           {DNNL_ARG_SRC_ITER, memory_at(shape.states(), s.first[0].as())},
                           {DNNL_ARG_BIAS, memory_at(shape.bias(), s.bias.as())},
                           {DNNL_ARG_DST_LAYER, memory_at(shape.result(), s.result.as())},
                           {DNNL_ARG_DST_ITER, memory_at(shape.states(), s.last[0].as())},
                           {DNNL_ARG_WORKSPACE, memory_at(s.primitives.workspace, s.workspace.as())}};
    if (sizes_.kind == LayerKind::lstm) {
      common.insert({DNNL_ARG_SRC_ITER_C, memory_at(shape.states(), s.first[1].as())});
      common.insert({DNNL_ARG_DST_ITER_C, memory_at(shape.states(), s.last[1].as())});
    }
    Call::Arguments forward = common, backward = common;
    forward.insert({DNNL_ARG_WEIGHTS_LAYER, memory_at(packed[0], s.packed[0].as())});
    forward.insert({DNNL_ARG_WEIGHTS_ITER, memory_at(packed[1], s.packed[1].as())});
    forward.insert({DNNL_ARG_SCRATCHPAD, scratchpad_at(s.primitives.forward_scratchpad, p_)});
    s.forward = Call(s.primitives.forward, std::move(forward));

    backward.insert({DNNL_ARG_WEIGHTS_LAYER, memory_at(plain[0], s.plain[0].as())});
    backward.insert({DNNL_ARG_WEIGHTS_ITER, memory_at(plain[1], s.plain[1].as())});
    backward.insert({DNNL_ARG_DIFF_SRC_LAYER, memory_at(shape.source(), below(l))});
    backward.insert({DNNL_ARG_DIFF_SRC_ITER, memory_at(shape.states(), s.d_first[0].as())});
    backward.insert({DNNL_ARG_DIFF_WEIGHTS_LAYER, memory_at(packed[0], s.gradient[0].as())});
    backward.insert({DNNL_ARG_DIFF_WEIGHTS_ITER, memory_at(packed[1], s.gradient[1].as())});
    backward.insert({DNNL_ARG_DIFF_BIAS, memory_at(shape.bias(), s.bias_gradient.as())});
    backward.insert({DNNL_ARG_DIFF_DST_LAYER, memory_at(shape.result(), above(l))});
    backward.insert({DNNL_ARG_DIFF_DST_ITER, memory_at(shape.states(), s.d_last[0].as())});
    if (sizes_.kind == LayerKind::lstm) {
      backward.insert({DNNL_ARG_DIFF_SRC_ITER_C, memory_at(shape.states(), s.d_first[1].as())});
      backward.insert({DNNL_ARG_DIFF_DST_ITER_C, memory_at(shape.states(), s.d_last[1].as())});
    }
    backward.insert({DNNL_ARG_SCRATCHPAD, scratchpad_at(s.primitives.backward_scratchpad, p_)});
    s.backward = Call(s.primitives.backward, std::move(backward));
  }

  int parameter(int l, int direction, int which) const {
    return layer_.parameters[static_cast<std::size_t>(4 * (l * sizes_.directions() + direction) + which)];
  }
  // Where a gate of a parameter stands in the library's order: of gru z comes before r.
  std::int64_t place_of(std::int64_t gate) const {
    return sizes_.kind == LayerKind::gru && gate < 2 ? 1 - gate : gate;
  }

  void take_weights(int l) {
    Stage& s = stage(l);
    const std::int64_t hidden = sizes_.hidden(), gates = s.shape.gates();
    for (int direction = 0; direction < sizes_.directions(); ++direction) {
      for (int i = 0; i < 2; ++i) {
        const std::int64_t each = hidden * (i == 0 ? s.shape.width : hidden);
        const float* from = p_.parameters->weight(parameter(l, direction, i));
        for (std::int64_t gate = 0; gate < gates; ++gate)
          copy_floats(s.plain[i].as() + (direction * gates + place_of(gate)) * each, from + gate * each,
                      each);
      }
      const float* of_input = p_.parameters->weight(parameter(l, direction, 2));
      const float* of_state = p_.parameters->weight(parameter(l, direction, 3));
      float* bias = s.bias.as() + direction * s.shape.biases() * hidden;
      for (std::int64_t gate = 0; gate < gates; ++gate) {
        float* to = bias + place_of(gate) * hidden;
        std::copy_n(of_input + gate * hidden, hidden, to);
        // What goes from gru's state into n is reset apart.
        if (sizes_.kind == LayerKind::gru && gate == 2) {
          std::copy_n(of_state + gate * hidden, hidden, to + hidden);
        } else {
          add_to(to, of_state + gate * hidden, hidden);
        }
      }
    }
    for (const Call& call : s.pack) call.run();
  }

  void forward() {
    swap_leading(in_.as(), p_.inputs[0].data, sizes_.batch, sizes_.steps, sizes_.width, false);
    for (int l = 0; l < sizes_.stack.layers; ++l) {
      Stage& s = stage(l);
      for (int state = 0; p_.inputs.size() > 1 && state < sizes_.states(); ++state)
        take_state(sizes_, s.first[state].as(), p_.inputs[1].data, l, state);
      s.forward.run();
      for (int state = 0; sizes_.stack.gives_state && state < sizes_.states(); ++state)
        give_state(sizes_, p_.output, s.last[state].as(), l, state);
      if (sizes_.drops_after(l)) drop_between(sizes_, mask(), l, s.dropped.as(), s.result.as());
    }
    if (!sizes_.stack.gives_state)
      swap_leading(p_.output, stages_.back().result.as(), sizes_.steps, sizes_.batch, sizes_.result_width(),
                   false);
  }

  static void clear(const Block& block) { std::fill_n(block.as(), block.bytes() / number_bytes, 0.0f); }

  void backward(bool adds) {
    const int top = sizes_.stack.layers - 1;
    if (sizes_.stack.gives_state) {
      std::fill_n(above(top), sizes_.result_floats(), 0.0f);
    } else {
      swap_leading(above(top), p_.gradient, sizes_.batch, sizes_.steps, sizes_.result_width(), false);
    }
    for (int l = top; l >= 0; --l) {
      Stage& s = stage(l);
      // Where the last states are given the gradient of a layer's sequence is that of the layer behind alone.
      for (int state = 0; sizes_.stack.gives_state && state < sizes_.states(); ++state)
        take_state(sizes_, s.d_last[state].as(), p_.gradient, l, state);
      for (const Block* block : {&s.gradient[0], &s.gradient[1], &s.bias_gradient}) clear(*block);
      s.backward.run();
      give_gradients(l, adds);
      const bool gives_first = p_.inputs.size() > 1 && p_.inputs[1].gradient != nullptr;
      for (int state = 0; gives_first && state < sizes_.states(); ++state)
        give_state(sizes_, p_.inputs[1].gradient, s.d_first[state].as(), l, state, p_.inputs[1].adds);
      if (l > 0 && sizes_.drops_after(l - 1)) drop_between(sizes_, mask(), l - 1, below(l), below(l));
    }
    if (wants_data())
      swap_leading(p_.inputs[0].gradient, below(0), sizes_.steps, sizes_.batch, sizes_.width,
                   p_.inputs[0].adds);
  }

  void give_gradients(int l, bool adds) {
    Stage& s = stage(l);
    for (const Call& call : s.unpack) call.run();
    const std::int64_t hidden = sizes_.hidden(), gates = s.shape.gates();
    const auto give = [&](int which, int direction, std::int64_t gate, const float* from,
                          std::int64_t count) {
      const int place = 4 * (l * sizes_.directions() + direction) + which;
      float* to = p_.parameters->gradient(parameter(l, direction, which)) + gate * count;
      const bool adding = adds || p_.shared_gradients[static_cast<std::size_t>(place)];
      (adding ? add_to : copy_floats)(to, from, count);
    };
    for (int direction = 0; direction < sizes_.directions(); ++direction) {
      for (std::int64_t gate = 0; gate < gates; ++gate) {
        for (int i = 0; i < 2; ++i) {
          const std::int64_t each = hidden * (i == 0 ? s.shape.width : hidden);
          give(i, direction, gate, s.plain_gradient[i].as() + (direction * gates + place_of(gate)) * each,
               each);
        }
        const float* bias = s.bias_gradient.as() + (direction * s.shape.biases() + place_of(gate)) * hidden;
        give(2, direction, gate, bias, hidden);
        const bool is_apart = sizes_.kind == LayerKind::gru && gate == 2;
        give(3, direction, gate, is_apart ? bias + hidden : bias, hidden);
      }
    }
  }

  const Layer& layer_;
  RecurrentSizes sizes_;
  std::uint64_t seed_, index_;
  Layout output_;
  std::deque<Stage> stages_;
  Places p_;
  Block in_;
};

}  // namespace

std::unique_ptr<Operator> make_recurrence(const OperatorPlan& plan) {
  return std::make_unique<Recurrence>(plan);
}

}  // namespace foretrain::device::cpu
