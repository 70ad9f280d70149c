// rnn, lstm and gru as a loop of small kernels over the positions, as a framework runs cells in a loop of its
// own: for each layer, direction and position two products and a kernel forward; a kernel, four products and
// two sums backward.
#include "device/cpu/cells.hpp"
#include "device/cpu/operators.hpp"
#include "device/cpu/recurrent_rows.hpp"
#include "device/cpu/row_loops.hpp"

namespace foretrain::device::cpu {
namespace {

constexpr std::int64_t number_bytes = sizeof(float);

// What one layer and direction keeps: of each position, and of states one more.
struct Direction {
  const float *weights[2] = {}, *biases[2] = {};  // of the input, of the state
  float *gradients[2] = {}, *bias_gradients[2] = {};
  bool shared[4] = {};
  Block gates, reset, h, c;
};
struct Stage {
  std::int64_t width = 0;
  std::vector<Direction> directions;
  Block result, dropped;  // {steps, batch, directions x hidden}
};

class Unrolled : public Operator {
 public:
  explicit Unrolled(const OperatorPlan& plan)
      : layer_(plan.layer),
        sizes_(plan),
        rows_(gates_of(plan.layer.kind) * sizes_.hidden()),
        state_(sizes_.batch * sizes_.hidden()),
        seed_(plan.seed),
        index_(static_cast<std::uint64_t>(plan.index)),
        output_(plain_layout(dims_of(plan.batch, plan.layer.output))) {}
  const Layout& output() const override { return output_; }

  void bind(const Places& p) override {
    p_ = p;
    const auto floats = [&](std::int64_t count) { return Block(count * number_bytes, p.count); };
    in_ = floats(sizes_.steps * sizes_.batch * sizes_.width);
    of_input_ = floats(sizes_.batch * rows_);
    of_state_ = floats(sizes_.batch * rows_);
    dh_ = floats(state_);
    dc_ = floats(state_);
    const std::int64_t widest = sizes_.steps * sizes_.batch * std::max(sizes_.width, sizes_.result_width());
    d_result_ = floats(widest);
    d_in_ = floats(widest);
    for (int l = 0; l < sizes_.stack.layers; ++l) {
      Stage& stage = stages_.emplace_back();
      stage.width = sizes_.width_of(l);
      stage.result = floats(sizes_.result_floats());
      if (sizes_.drops_after(l)) stage.dropped = floats(sizes_.result_floats());
      for (int d = 0; d < sizes_.directions(); ++d) {
        Direction& direction = stage.directions.emplace_back();
        for (int which = 0; which < 4; ++which) {
          const auto place = static_cast<std::size_t>(4 * (l * sizes_.directions() + d) + which);
          const int parameter = layer_.parameters[place];
          (which < 2 ? direction.weights : direction.biases)[which % 2] = p.parameters->weight(parameter);
          (which < 2 ? direction.gradients : direction.bias_gradients)[which % 2] =
              p.parameters->gradient(parameter);
          direction.shared[which] = p.shared_gradients[place];
        }
        direction.gates = floats(sizes_.steps * sizes_.batch * rows_);
        direction.h = floats((sizes_.steps + 1) * state_);
        if (sizes_.kind == LayerKind::lstm) direction.c = floats((sizes_.steps + 1) * state_);
        if (sizes_.kind == LayerKind::gru) direction.reset = floats(sizes_.steps * state_);
      }
    }
  }

  int launches(Pass pass) const override {
    const auto stages = static_cast<std::int64_t>(sizes_.stack.layers);
    const std::int64_t positions = stages * sizes_.directions() * sizes_.steps;
    const std::int64_t drops = sizes_.stack.dropout > 0 ? stages - 1 : 0;
    const std::int64_t states = stages * sizes_.states();
    const std::int64_t ends = sizes_.stack.gives_state ? states : 1,
                       begins = p_.inputs.size() > 1 ? states : 0;
    if (pass == Pass::forward) return static_cast<int>(3 * positions + drops + ends + begins + 1);
    if (pass != Pass::backward_weights) return 0;
    return static_cast<int>(7 * positions + drops + ends + begins + (wants_data() ? 1 : 0));
  }
  void run(Pass pass, bool adds) override { pass == Pass::forward ? forward() : backward(adds); }

 private:
  bool wants_data() const { return p_.inputs[0].gradient != nullptr; }
  std::int64_t position_of(int d, std::int64_t step) const { return d == 0 ? step : sizes_.steps - 1 - step; }
  const float* input_of(int l) const {
    if (l == 0) return in_.as();
    const Stage& before = stages_[static_cast<std::size_t>(l - 1)];
    return (sizes_.drops_after(l - 1) ? before.dropped : before.result).as();
  }
  const float* input_at(int l, std::int64_t position) const {
    return input_of(l) + position * sizes_.batch * stages_[static_cast<std::size_t>(l)].width;
  }
  DropoutMask mask() const {
    return {seed_, static_cast<std::uint64_t>(*p_.draw), index_, sizes_.stack.dropout};
  }

  CellStep step_of(const Stage& stage, int d, std::int64_t step) const {
    const Direction& direction = stage.directions[static_cast<std::size_t>(d)];
    CellStep s;
    s.kind = sizes_.kind;
    s.batch = sizes_.batch;
    s.hidden = sizes_.hidden();
    s.from_input = of_input_.as();
    s.from_state = of_state_.as();
    s.bias_input = direction.biases[0];
    s.bias_state = direction.biases[1];
    s.h_before = direction.h.as() + step * state_;
    s.h = direction.h.as() + (step + 1) * state_;
    s.gates = direction.gates.as() + step * sizes_.batch * rows_;
    if (sizes_.kind == LayerKind::gru) s.reset = direction.reset.as() + step * state_;
    if (sizes_.kind == LayerKind::lstm) {
      s.c_before = direction.c.as() + step * state_;
      s.c = direction.c.as() + (step + 1) * state_;
    }
    s.out = stage.result.as() + place_of(d, step);
    s.out_stride = sizes_.result_width();
    return s;
  }
  // A step's and direction's place in {steps, batch, directions x hidden}.
  std::int64_t place_of(int d, std::int64_t step) const {
    return position_of(d, step) * sizes_.batch * sizes_.result_width() + d * sizes_.hidden();
  }

  void forward() {
    swap_leading(in_.as(), p_.inputs[0].data, sizes_.batch, sizes_.steps, sizes_.width, false);
    for (int l = 0; l < sizes_.stack.layers; ++l) {
      const Stage& stage = stages_[static_cast<std::size_t>(l)];
      for (int d = 0; d < sizes_.directions(); ++d) {
        const Direction& direction = stage.directions[static_cast<std::size_t>(d)];
        for (int state = 0; p_.inputs.size() > 1 && state < sizes_.states(); ++state)
          take_state(sizes_, (state == 0 ? direction.h : direction.c).as(), p_.inputs[1].data, l, state);
        for (std::int64_t step = 0; step < sizes_.steps; ++step) {
          const CellStep s = step_of(stage, d, step);
          multiply_matrices(sizes_.batch, rows_, stage.width, 1,
                            {input_at(l, position_of(d, step)), stage.width},
                            {direction.weights[0], stage.width, true}, false, of_input_.as(), rows_);
          multiply_matrices(sizes_.batch, rows_, sizes_.hidden(), 1, {s.h_before, sizes_.hidden()},
                            {direction.weights[1], sizes_.hidden(), true}, false, of_state_.as(), rows_);
          cell_forward(s);
        }
      }
      const Direction& first = stage.directions[0];
      for (int state = 0; sizes_.stack.gives_state && state < sizes_.states(); ++state)
        give_state(sizes_, p_.output, (state == 0 ? first.h : first.c).as() + sizes_.steps * state_, l,
                   state);
      if (sizes_.drops_after(l)) drop_between(sizes_, mask(), l, stage.dropped.as(), stage.result.as());
    }
    if (!sizes_.stack.gives_state)
      swap_leading(p_.output, stages_.back().result.as(), sizes_.steps, sizes_.batch, sizes_.result_width(),
                   false);
  }

  void backward(bool adds) {
    if (sizes_.stack.gives_state) {
      std::fill_n(d_result_.as(), sizes_.result_floats(), 0.0f);
    } else {
      swap_leading(d_result_.as(), p_.gradient, sizes_.batch, sizes_.steps, sizes_.result_width(), false);
    }
    for (int l = sizes_.stack.layers; l-- > 0;) {
      for (int d = 0; d < sizes_.directions(); ++d) {
        for (const Block* block : {&dh_, &dc_}) std::fill_n(block->as(), state_, 0.0f);
        for (int state = 0; sizes_.stack.gives_state && d == 0 && state < sizes_.states(); ++state)
          take_state(sizes_, (state == 0 ? dh_ : dc_).as(), p_.gradient, l, state);
        for (std::int64_t step = sizes_.steps; step-- > 0;) step_backward(l, d, step, adds);
        const bool gives_first = p_.inputs.size() > 1 && p_.inputs[1].gradient != nullptr;
        for (int state = 0; gives_first && state < sizes_.states(); ++state)
          give_state(sizes_, p_.inputs[1].gradient, (state == 0 ? dh_ : dc_).as(), l, state,
                     p_.inputs[1].adds);
      }
      if (l > 0 && sizes_.drops_after(l - 1)) drop_between(sizes_, mask(), l - 1, d_in_.as(), d_in_.as());
      std::swap(d_in_, d_result_);  // the gradient of the result of the layer before
    }
    if (wants_data())
      swap_leading(p_.inputs[0].gradient, d_result_.as(), sizes_.steps, sizes_.batch, sizes_.width,
                   p_.inputs[0].adds);
  }

  void step_backward(int l, int d, std::int64_t step, bool adds) {
    const Stage& stage = stages_[static_cast<std::size_t>(l)];
    const Direction& direction = stage.directions[static_cast<std::size_t>(d)];
    const CellStep s = step_of(stage, d, step);
    const bool is_gru = sizes_.kind == LayerKind::gru;
    CellGradients g;
    g.dout = d_result_.as() + place_of(d, step);
    g.dh = dh_.as();
    g.dc = dc_.as();
    g.d_input = of_input_.as();
    g.d_state = is_gru ? of_state_.as() : of_input_.as();
    cell_backward(s, g);
    const std::int64_t hidden = sizes_.hidden(), position = position_of(d, step);
    multiply_matrices(sizes_.batch, hidden, rows_, 1, {g.d_state, rows_}, {direction.weights[1], hidden},
                      is_gru, dh_.as(), hidden);
    multiply_matrices(sizes_.batch, stage.width, rows_, 1, {g.d_input, rows_},
                      {direction.weights[0], stage.width}, d > 0,
                      d_in_.as() + position * sizes_.batch * stage.width, stage.width);
    const auto adding = [&](int which) { return adds || step + 1 < sizes_.steps || direction.shared[which]; };
    multiply_matrices(rows_, stage.width, sizes_.batch, 1, {g.d_input, rows_, true},
                      {input_at(l, position), stage.width}, adding(0), direction.gradients[0], stage.width);
    multiply_matrices(rows_, hidden, sizes_.batch, 1, {g.d_state, rows_, true}, {s.h_before, hidden},
                      adding(1), direction.gradients[1], hidden);
    sum_rows(direction.bias_gradients[0], g.d_input, sizes_.batch, rows_, adding(2));
    sum_rows(direction.bias_gradients[1], g.d_state, sizes_.batch, rows_, adding(3));
  }

  const Layer& layer_;
  RecurrentSizes sizes_;
  std::int64_t rows_, state_;  // gates x hidden; floats of a state
  std::uint64_t seed_, index_;
  Layout output_;
  std::vector<Stage> stages_;
  Places p_;
  Block in_, of_input_, of_state_, dh_, dc_, d_result_, d_in_;
};

}  // namespace

std::unique_ptr<Operator> make_unrolled(const OperatorPlan& plan) {
  return std::make_unique<Unrolled>(plan);
}

}  // namespace foretrain::device::cpu
