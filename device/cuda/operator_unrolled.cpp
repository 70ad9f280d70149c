// rnn, lstm and gru as a loop of small kernels over the positions, as a framework runs cells in a loop of its
// own: for each layer, direction and position two products and a kernel forward, four products and three
// kernels backward. A step of this is bound by the host. Inside, time comes before batch.
#include <algorithm>
#include <vector>

#include "device/cuda/operators.hpp"
#include "device/cuda/recurrence.hpp"
#include "device/cuda/sequence.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::cuda {
namespace {

class UnrolledOperator : public Runnable {
 public:
  UnrolledOperator(const Build& build, const Operator& op)
      : build_(build),
        op_(op),
        layer_(build.layer(op)),
        stack_(layer_.recurrence),
        cell_(layer_.kind == LayerKind::lstm  ? Cell::lstm
              : layer_.kind == LayerKind::gru ? Cell::gru
                                              : Cell::rnn),
        batch_(build.options.batch),
        length_(build.tensor(op.inputs[0]).pixels()),
        width_(build.tensor(op.inputs[0]).channels),
        hidden_(stack_.hidden),
        gates_(gates_of(layer_.kind)),
        directions_(stack_.directions()),
        states_{batch_, hidden_, states_of(layer_.kind), 1, 1},
        draws_(build, op) {
    if (build.parameters.gradient_type() != Scalar::f32 && build.parameters.gradient_type() != build.type) {
      throw Error(
          ErrorKind::unavailable,
          "layer " + layer_.name + ": unrolled recurrences keep gradients in fp32 or in the precision");
    }
    for (int l = 0; l < stack_.layers; ++l) {
      stages_.emplace_back();
      make_stage(stages_.back(), l);
    }
    const std::int64_t of_state = batch_ * hidden_;
    of_input_ = memory(of_state * gates_);
    of_state_ = memory(of_state * gates_);
    d_input_ = memory(of_state * gates_);
    if (cell_ == Cell::gru) d_state_ = memory(of_state * gates_);
    dh_ = memory(of_state);
    dc_ = DeviceMemory(build.context.account, of_state * 4);
    packed_ = memory(of_state * states_.states);
    widest_ = std::max(width_, hidden_ * directions_);
    d_out_ = memory(length_ * batch_ * widest_);
    d_in_ = memory(length_ * batch_ * widest_);
    in_ = memory(length_ * batch_ * width_);
    FORETRAIN_CUDA(cudaDeviceSynchronize());
  }

  bool has(Pass pass) const override { return pass != Pass::backward_data; }
  std::int64_t workspace() const override { return products_workspace_; }
  void bind(void* workspace) override { workspace_ = workspace; }
  void accumulate(bool adds) override { adds_ = adds; }
  void run(Pass pass) override { pass == Pass::forward ? forward() : backward(); }

 private:
  // One direction of a layer, with what the forward pass keeps: of each position, and of states one more.
  struct Direction {
    int weight_ih = 0, weight_hh = 0, bias_ih = 0, bias_hh = 0;
    DeviceMemory gates, state_part, h, c;
    std::unique_ptr<Matmul> of_input, of_state, d_state, d_input, d_weight_ih, d_weight_hh;
  };
  struct Stage {
    std::int64_t width = 0;
    std::vector<Direction> directions;
    DeviceMemory out, dropped;  // {length, batch, directions x hidden}; before and after dropout
  };

  cudaStream_t stream() const { return build_.context.compute; }
  int element() const { return bytes_of(build_.type); }
  DeviceMemory memory(std::int64_t elements) const {
    DeviceMemory made(build_.context.account, elements * element());
    FORETRAIN_CUDA(cudaMemset(made.data(), 0, static_cast<std::size_t>(made.bytes())));
    return made;
  }
  void clear(const DeviceMemory& memory) const {
    FORETRAIN_CUDA(cudaMemsetAsync(memory.data(), 0, static_cast<std::size_t>(memory.bytes()), stream()));
  }
  bool drops_after(int l) const { return stack_.dropout > 0 && l + 1 < stack_.layers; }

  void make_stage(Stage& stage, int l) {
    stage.width = l == 0 ? width_ : hidden_ * directions_;
    const std::int64_t rows = gates_ * hidden_, of_state = batch_ * hidden_;
    stage.out = memory(length_ * of_state * directions_);
    if (drops_after(l)) stage.dropped = memory(length_ * of_state * directions_);
    for (int d = 0; d < directions_; ++d) {
      Direction& direction = stage.directions.emplace_back();
      const auto parameter = [&](int which) {
        return layer_.parameters[static_cast<std::size_t>(4 * (l * directions_ + d) + which)];
      };
      direction.weight_ih = parameter(0);
      direction.weight_hh = parameter(1);
      direction.bias_ih = parameter(2);
      direction.bias_hh = parameter(3);
      if (cell_ != Cell::rnn) direction.gates = memory(length_ * of_state * gates_);
      if (cell_ == Cell::gru) direction.state_part = memory(length_ * of_state);
      direction.h = memory((length_ + 1) * of_state);
      if (cell_ == Cell::lstm) {
        direction.c = DeviceMemory(build_.context.account, (length_ + 1) * of_state * 4);
        FORETRAIN_CUDA(cudaMemset(direction.c.data(), 0, static_cast<std::size_t>(direction.c.bytes())));
      }
      const Scalar type = build_.type, of_gradient = build_.parameters.gradient_type();
      direction.of_input = product(batch_, rows, stage.width, false, true, type, direction.bias_ih);
      direction.of_state = product(batch_, rows, hidden_, false, true, type, direction.bias_hh);
      direction.d_state = product(batch_, hidden_, rows, false, false, type, -1);
      direction.d_input = product(batch_, stage.width, rows, false, false, type, -1);
      direction.d_weight_ih = product(rows, stage.width, batch_, true, false, of_gradient, -1);
      direction.d_weight_hh = product(rows, hidden_, batch_, true, false, of_gradient, -1);
    }
  }

  std::unique_ptr<Matmul> product(std::int64_t rows, std::int64_t columns, std::int64_t inner, bool first,
                                  bool second, Scalar result, int bias) {
    MatmulProblem p{rows, columns, inner, first, second, build_.type, result, build_.tf32, bias >= 0};
    p.candidates = std::max(1, build_.options.plan_candidates);
    p.alignment = static_cast<int>(alignment_of(stages_.back().width));
    // Operands of the search, by type: products run on others.
    const DeviceMemory a = memory(rows * inner), b = memory(inner * columns);
    const DeviceMemory c(build_.context.account, rows * columns * 4);
    auto made = std::make_unique<Matmul>(p, a.data(), b.data(), c.data(),
                                         bias >= 0 ? build_.parameters.computed(bias) : nullptr);
    made->choose(build_.context.cublas, build_.context.matmuls, build_.search, build_.context.compute);
    FORETRAIN_CUDA(cudaStreamSynchronize(build_.context.compute));
    products_workspace_ = std::max(products_workspace_, made->workspace());
    return made;
  }
  void multiply(const std::unique_ptr<Matmul>& product, const void* first, const void* second, void* result,
                bool adds = false) const {
    product->place(first, second, result);
    product->run(build_.context.cublas, workspace_, stream(), adds);
  }

  // Of what lies at a step or position: the power of two that divides all distances.
  std::int64_t alignment_of(std::int64_t width) const {
    const std::int64_t distances = batch_ * element() * (width | hidden_ | hidden_ * directions_);
    return std::min<std::int64_t>(256, distances & -distances);
  }
  // Places at a step or position, of so many elements each.
  std::byte* step_of(const DeviceMemory& memory, std::int64_t step, std::int64_t elements) const {
    return memory.data() + step * elements * element();
  }
  float* cell_of(const Direction& direction, std::int64_t step) const {
    return direction.c.as<float>() + step * batch_ * hidden_;
  }
  std::int64_t position_of(int d, std::int64_t step) const { return d == 0 ? step : length_ - 1 - step; }
  const void* input_of(int l) const {
    if (l == 0) return in_.data();
    const Stage& before = stages_[static_cast<std::size_t>(l - 1)];
    return drops_after(l - 1) ? before.dropped.data() : before.out.data();
  }
  CellShape shape_of(int d) const { return {cell_, batch_, hidden_, hidden_ * directions_, d * hidden_}; }
  Dropout dropout_of(int l) const { return draws_.of(stack_.dropout, l); }

  void forward() {
    const Scalar type = build_.type;
    draws_.begin_forward(stream());
    swap_leading(type, batch_, length_, width_, build_.at(op_.x), in_.data(), stream());
    for (int l = 0; l < stack_.layers; ++l) {
      Stage& stage = stages_[static_cast<std::size_t>(l)];
      for (int d = 0; d < directions_; ++d) {
        if (op_.inputs.size() == 2) begin(stage.directions[static_cast<std::size_t>(d)], l);
        for (std::int64_t step = 0; step < length_; ++step) step_forward(stage, l, d, step);
      }
      if (drops_after(l)) {
        dropout(type, length_ * batch_ * hidden_ * directions_, dropout_of(l), stage.out.data(),
                stage.dropped.data(), stream());
      }
    }
    if (stack_.gives_state) return give_states();
    swap_leading(type, length_, batch_, hidden_ * directions_, stages_.back().out.data(), build_.at(op_.y),
                 stream());
  }

  void step_forward(Stage& stage, int l, int d, std::int64_t step) {
    Direction& direction = stage.directions[static_cast<std::size_t>(d)];
    const std::int64_t position = position_of(d, step), of_state = batch_ * hidden_;
    const auto* in = static_cast<const std::byte*>(input_of(l)) + position * batch_ * stage.width * element();
    const void* before = step_of(direction.h, step, of_state);
    multiply(direction.of_input, in, build_.parameters.computed(direction.weight_ih), of_input_.data());
    multiply(direction.of_state, before, build_.parameters.computed(direction.weight_hh), of_state_.data());
    CellForward made{};
    made.from_input = of_input_.data();
    made.from_state = of_state_.data();
    made.h_before = before;
    made.gates = step_of(direction.gates, step, of_state * gates_);
    made.state_part = step_of(direction.state_part, step, of_state);
    made.h = step_of(direction.h, step + 1, of_state);
    made.out = step_of(stage.out, position, of_state * directions_);
    if (cell_ == Cell::lstm) {
      made.c_before = cell_of(direction, step);
      made.c = cell_of(direction, step + 1);
    }
    cell_forward(build_.type, shape_of(d), made, stream());
  }

  // One layer's part of {batch, states, layers, hidden}.
  void copy_state(const void* packed, int l, int state, void* to) const {
    copy_columns(build_.type, batch_, hidden_, packed, states_.states * stack_.layers * hidden_,
                 (static_cast<std::int64_t>(state) * stack_.layers + l) * hidden_, to, hidden_, 0, stream());
  }
  void place_state(const void* from, int l, int state, void* packed) const {
    copy_columns(build_.type, batch_, hidden_, from, hidden_, 0, packed,
                 states_.states * stack_.layers * hidden_,
                 (static_cast<std::int64_t>(state) * stack_.layers + l) * hidden_, stream());
  }

  void begin(Direction& direction, int l) {
    copy_state(build_.at(op_.inputs_at[1]), l, 0, direction.h.data());
    if (cell_ != Cell::lstm) return;
    copy_state(build_.at(op_.inputs_at[1]), l, 1, packed_.data());
    convert_rows(batch_, hidden_, packed_.data(), build_.type, hidden_, direction.c.data(), Scalar::f32,
                 hidden_, stream());
  }

  void give_states() {
    for (int l = 0; l < stack_.layers; ++l) {
      const Direction& direction = stages_[static_cast<std::size_t>(l)].directions[0];
      place_state(step_of(direction.h, length_, batch_ * hidden_), l, 0, build_.at(op_.y));
      if (cell_ != Cell::lstm) continue;
      convert_rows(batch_, hidden_, cell_of(direction, length_), Scalar::f32, hidden_, packed_.data(),
                   build_.type, hidden_, stream());
      place_state(packed_.data(), l, 1, build_.at(op_.y));
    }
  }

  void backward() {
    run_sums(build_, op_);
    const Scalar type = build_.type;
    if (stack_.gives_state) {
      clear(d_out_);
    } else {
      swap_leading(type, batch_, length_, hidden_ * directions_, build_.at(op_.dy), d_out_.data(), stream());
    }
    for (int l = stack_.layers - 1; l >= 0; --l) {
      Stage& stage = stages_[static_cast<std::size_t>(l)];
      for (int d = 0; d < directions_; ++d) {
        end(l, d);
        for (std::int64_t step = length_ - 1; step >= 0; --step) step_backward(stage, l, d, step);
        if (op_.inputs.size() == 2 && op_.inputs_dx[1] != nowhere) give_first_gradient(l);
      }
      if (l > 0 && drops_after(l - 1)) {
        dropout(type, length_ * batch_ * stage.width, dropout_of(l - 1), d_in_.data(), d_in_.data(),
                stream());
      }
      std::swap(d_in_, d_out_);  // the gradient of the output of the layer before
    }
    if (op_.dx != nowhere)
      swap_leading(type, length_, batch_, width_, d_out_.data(), build_.at(op_.dx), stream());
  }

  // The gradients of the last state, before the steps go back.
  void end(int l, int d) {
    clear(dh_);
    clear(dc_);
    if (!stack_.gives_state || d != 0) return;
    copy_state(build_.at(op_.dy), l, 0, dh_.data());
    if (cell_ != Cell::lstm) return;
    copy_state(build_.at(op_.dy), l, 1, packed_.data());
    convert_rows(batch_, hidden_, packed_.data(), build_.type, hidden_, dc_.data(), Scalar::f32, hidden_,
                 stream());
  }

  void give_first_gradient(int l) {
    std::byte* to = build_.at(op_.inputs_dx[1]);
    place_state(dh_.data(), l, 0, to);
    if (cell_ != Cell::lstm) return;
    convert_rows(batch_, hidden_, dc_.data(), Scalar::f32, hidden_, packed_.data(), build_.type, hidden_,
                 stream());
    place_state(packed_.data(), l, 1, to);
  }

  void step_backward(Stage& stage, int l, int d, std::int64_t step) {
    Direction& direction = stage.directions[static_cast<std::size_t>(d)];
    const Parameters& parameters = build_.parameters;
    const std::int64_t position = position_of(d, step), of_state = batch_ * hidden_;
    const auto* in = static_cast<const std::byte*>(input_of(l)) + position * batch_ * stage.width * element();
    const void* before = step_of(direction.h, step, of_state);
    const DeviceMemory& d_of_state = cell_ == Cell::gru ? d_state_ : d_input_;
    CellBackward made{};
    made.dout = step_of(d_out_, position, of_state * directions_);
    made.dh = dh_.data();
    made.dc = dc_.as<float>();
    made.gates = step_of(direction.gates, step, of_state * gates_);
    made.state_part = step_of(direction.state_part, step, of_state);
    made.h_before = before;
    made.h = step_of(direction.h, step + 1, of_state);
    if (cell_ == Cell::lstm) {
      made.c_before = cell_of(direction, step);
      made.c = cell_of(direction, step + 1);
    }
    made.d_from_input = d_input_.data();
    made.d_from_state = d_of_state.data();
    made.dh_direct = dh_.data();
    cell_backward(build_.type, shape_of(d), made, stream());
    multiply(direction.d_state, d_of_state.data(), parameters.computed(direction.weight_hh), dh_.data(),
             cell_ == Cell::gru);
    multiply(direction.d_input, d_input_.data(), parameters.computed(direction.weight_ih),
             step_of(d_in_, position, batch_ * stage.width), d > 0);
    const bool adds = adds_ || step + 1 < length_;
    multiply(direction.d_weight_ih, d_input_.data(), in, parameters.gradient(direction.weight_ih), adds);
    multiply(direction.d_weight_hh, d_of_state.data(), before, parameters.gradient(direction.weight_hh),
             adds);
    const auto add_bias = [&](int bias, const DeviceMemory& gradient) {
      GradientSink sink = parameters.sink(bias);
      sink.adds = adds;
      bias_backward(build_.type, batch_, gates_ * hidden_, gradient.data(), nullptr, nullptr, nullptr, sink,
                    build_.reduction, stream());
    };
    add_bias(direction.bias_ih, d_input_);
    add_bias(direction.bias_hh, d_of_state);
  }

  Build build_;
  Operator op_;
  const Layer& layer_;
  const RecurrentStack& stack_;
  Cell cell_;
  std::int64_t batch_, length_, width_, hidden_;
  int gates_, directions_;
  StateLayout states_;
  DropoutDraws draws_;
  bool adds_ = false;
  std::int64_t widest_ = 0, products_workspace_ = 0;
  std::vector<Stage> stages_;
  DeviceMemory in_, of_input_, of_state_, d_input_, d_state_, dh_, dc_, packed_, d_out_, d_in_;
  void* workspace_ = nullptr;
};

}  // namespace

std::unique_ptr<Runnable> make_unrolled(const Build& build, const Operator& op) {
  return std::make_unique<UnrolledOperator>(build, op);
}

}  // namespace foretrain::device::cuda
