#include "device/reference/recurrence.hpp"

#include <algorithm>
#include <cmath>

#include "device/reference/indexing.hpp"

namespace foretrain::device::reference {
namespace {

// One layer and direction: its weights, and where things lie.
struct Direction {
  const RecurrencePlan& plan;
  const Tensor &weight_ih, &weight_hh, &bias_ih, &bias_hh;
  Index width;
  bool is_reverse;

  Index hidden() const { return plan.stack.hidden; }
  Index rows() const { return plan.gates() * hidden(); }
  // The position in the sequence of the s-th step.
  Index position(Index step) const { return is_reverse ? plan.steps - 1 - step : step; }
  Index state(Index step, Index n, Index i) const { return (step * plan.batch + n) * hidden() + i; }
  Index gate(Index step, Index n, Index row) const { return (step * plan.batch + n) * rows() + row; }
  Index input(Index step, Index n, Index f) const { return (n * plan.steps + position(step)) * width + f; }
};

Direction direction_of(const RecurrencePlan& plan, const std::vector<const Tensor*>& parameters, int layer,
                       int direction) {
  const auto first = static_cast<std::size_t>(4 * (layer * plan.stack.directions() + direction));
  return {plan,
          *parameters[first],
          *parameters[first + 1],
          *parameters[first + 2],
          *parameters[first + 3],
          plan.width(layer),
          direction == 1};
}

double product(const Tensor& weight, Index row, Index count, const double* x) {
  double sum = 0;
  for (Index i = 0; i < count; ++i) sum += weight[at(row * count + i)] * x[i];
  return sum;
}

// lstm: i f g o; c' = f c + i g; h' = o tanh(c'). gru: r z n with n = tanh(. + r (W_hn h + b_hn)); h' = (1 -
// z) n + z h. rnn: h' = tanh(.).
void step_forward(const Direction& d, Index step, Index n, const Tensor& x, DirectionMemory& m) {
  const Index hidden = d.hidden();
  const double* in = x.data() + d.input(step, n, 0);
  const double* before = m.h.data() + d.state(step, n, 0);
  for (Index row = 0; row < d.rows(); ++row) {
    const double from_input = product(d.weight_ih, row, d.width, in) + d.bias_ih[at(row)];
    const double from_state = product(d.weight_hh, row, hidden, before) + d.bias_hh[at(row)];
    double& gate = m.gates[at(d.gate(step, n, row))];
    const Index part = row / hidden, i = row % hidden;
    if (d.plan.kind == LayerKind::rnn) {
      gate = std::tanh(from_input + from_state);
    } else if (d.plan.kind == LayerKind::lstm) {
      gate = part == 2 ? std::tanh(from_input + from_state) : logistic(from_input + from_state);
    } else if (part < 2) {
      gate = logistic(from_input + from_state);
    } else {
      m.reset[at(d.state(step, n, i))] = from_state;
      gate = std::tanh(from_input + m.gates[at(d.gate(step, n, i))] * from_state);
    }
  }
  for (Index i = 0; i < hidden; ++i) {
    const auto gate = [&](Index part) { return m.gates[at(d.gate(step, n, part * hidden + i))]; };
    double& after = m.h[at(d.state(step + 1, n, i))];
    if (d.plan.kind == LayerKind::rnn) {
      after = gate(0);
    } else if (d.plan.kind == LayerKind::lstm) {
      double& c = m.c[at(d.state(step + 1, n, i))];
      c = gate(1) * m.c[at(d.state(step, n, i))] + gate(0) * gate(2);
      after = gate(3) * std::tanh(c);
    } else {
      after = (1 - gate(1)) * gate(2) + gate(1) * before[i];
    }
  }
}

// Of one step: from the gradients of the states after it to those before it, and of what goes into the gates.
// `from_input` and `from_state` differ in gru's n alone, where the state's part is reset.
struct StepGradients {
  Tensor from_input, from_state;  // rows
};

void gates_backward(const Direction& d, Index step, Index n, const DirectionMemory& m, Tensor& dh, Tensor& dc,
                    Tensor& dh_before, StepGradients& out) {
  const Index hidden = d.hidden();
  for (Index i = 0; i < hidden; ++i) {
    const auto gate = [&](Index part) { return m.gates[at(d.gate(step, n, part * hidden + i))]; };
    const auto put = [&](Index part, double input, double state) {
      out.from_input[at(part * hidden + i)] = input;
      out.from_state[at(part * hidden + i)] = state;
    };
    const double g = dh[at(n * hidden + i)];
    dh_before[at(i)] = 0;
    if (d.plan.kind == LayerKind::rnn) {
      const double flow = g * (1 - gate(0) * gate(0));
      put(0, flow, flow);
    } else if (d.plan.kind == LayerKind::lstm) {
      const double t = std::tanh(m.c[at(d.state(step + 1, n, i))]);
      const double c = dc[at(n * hidden + i)] + g * gate(3) * (1 - t * t);
      const double flows[4] = {c * gate(2) * gate(0) * (1 - gate(0)),
                               c * m.c[at(d.state(step, n, i))] * gate(1) * (1 - gate(1)),
                               c * gate(0) * (1 - gate(2) * gate(2)), g * t * gate(3) * (1 - gate(3))};
      for (Index part = 0; part < 4; ++part) put(part, flows[part], flows[part]);
      dc[at(n * hidden + i)] = c * gate(1);
    } else {
      const double before = m.h[at(d.state(step, n, i))], recurrent = m.reset[at(d.state(step, n, i))];
      const double into_n = g * (1 - gate(1)) * (1 - gate(2) * gate(2));
      const double into_z = g * (before - gate(2)) * gate(1) * (1 - gate(1));
      const double into_r = into_n * recurrent * gate(0) * (1 - gate(0));
      put(0, into_r, into_r);
      put(1, into_z, into_z);
      put(2, into_n, into_n * gate(0));
      dh_before[at(i)] = g * gate(1);
    }
  }
}

void step_backward(const Direction& d, Index step, Index n, const Tensor& x, const DirectionMemory& m,
                   Tensor& dh, Tensor& dc, StepGradients& flow, Tensor* gradients, Tensor& dx) {
  const Index hidden = d.hidden();
  Tensor before(at(hidden));
  gates_backward(d, step, n, m, dh, dc, before, flow);
  for (Index row = 0; row < d.rows(); ++row) {
    const double input = flow.from_input[at(row)], state = flow.from_state[at(row)];
    for (Index f = 0; f < d.width; ++f) {
      gradients[0][at(row * d.width + f)] += input * x[at(d.input(step, n, f))];
      dx[at(d.input(step, n, f))] += input * d.weight_ih[at(row * d.width + f)];
    }
    for (Index i = 0; i < hidden; ++i) {
      gradients[1][at(row * hidden + i)] += state * m.h[at(d.state(step, n, i))];
      before[at(i)] += state * d.weight_hh[at(row * hidden + i)];
    }
    gradients[2][at(row)] += input;
    gradients[3][at(row)] += state;
  }
  std::copy(before.begin(), before.end(), dh.begin() + n * hidden);
}

// Where a state lies in {batch, states, layers, hidden}.
Index state_place(const RecurrencePlan& plan, Index n, Index which, Index layer) {
  return ((n * states_of(plan.kind) + which) * plan.stack.layers + layer) * plan.stack.hidden;
}

DirectionMemory empty_memory(const RecurrencePlan& plan) {
  DirectionMemory memory;
  const Index states = (plan.steps + 1) * plan.batch * plan.stack.hidden;
  memory.h.assign(at(states), 0.0);
  memory.gates.assign(at(plan.steps * plan.batch * plan.gates() * plan.stack.hidden), 0.0);
  if (plan.kind == LayerKind::lstm) memory.c.assign(at(states), 0.0);
  if (plan.kind == LayerKind::gru) memory.reset.assign(at(states), 0.0);
  return memory;
}

}  // namespace

void recurrence_forward(const RecurrencePlan& plan, const std::vector<const Tensor*>& parameters,
                        const Tensor& x, const Tensor& first, const DropoutMask& mask, Tensor& y,
                        RecurrenceMemory& memory) {
  const int directions = plan.stack.directions();
  const Index hidden = plan.stack.hidden, out_width = directions * hidden;
  memory.inputs.assign(1, x);
  memory.directions.clear();
  for (int layer = 0; layer < plan.stack.layers; ++layer) {
    const Tensor& in = memory.inputs.back();
    Tensor out(at(plan.batch * plan.steps * out_width));
    for (int direction = 0; direction < directions; ++direction) {
      const Direction d = direction_of(plan, parameters, layer, direction);
      DirectionMemory m = empty_memory(plan);
      for (Index n = 0; n < plan.batch && !first.empty(); ++n) {
        std::copy_n(first.begin() + state_place(plan, n, 0, layer), hidden, m.h.begin() + n * hidden);
        if (!m.c.empty())
          std::copy_n(first.begin() + state_place(plan, n, 1, layer), hidden, m.c.begin() + n * hidden);
      }
      for (Index step = 0; step < plan.steps; ++step) {
        for (Index n = 0; n < plan.batch; ++n) {
          step_forward(d, step, n, in, m);
          std::copy_n(m.h.begin() + d.state(step + 1, n, 0), hidden,
                      out.begin() + (n * plan.steps + d.position(step)) * out_width + direction * hidden);
        }
      }
      if (plan.stack.gives_state && direction == 0) {
        for (Index n = 0; n < plan.batch; ++n) {
          std::copy_n(m.h.begin() + d.state(plan.steps, n, 0), hidden,
                      y.begin() + state_place(plan, n, 0, layer));
          if (!m.c.empty())
            std::copy_n(m.c.begin() + d.state(plan.steps, n, 0), hidden,
                        y.begin() + state_place(plan, n, 1, layer));
        }
      }
      memory.directions.push_back(std::move(m));
    }
    const bool is_last = layer + 1 == plan.stack.layers;
    if (is_last && !plan.stack.gives_state) y = out;
    if (is_last) break;
    const Index before = layer * static_cast<Index>(out.size());
    for (std::size_t e = 0; e < out.size(); ++e) out[e] *= mask.at(before + static_cast<Index>(e));
    memory.inputs.push_back(std::move(out));
  }
}

RecurrenceGradients recurrence_backward(const RecurrencePlan& plan,
                                        const std::vector<const Tensor*>& parameters, const DropoutMask& mask,
                                        const Tensor& dy, const RecurrenceMemory& memory) {
  const int directions = plan.stack.directions();
  const Index hidden = plan.stack.hidden, out_width = directions * hidden;
  RecurrenceGradients out;
  for (const Tensor* parameter : parameters) out.parameters.emplace_back(parameter->size(), 0.0);
  out.first.assign(at(plan.batch * states_of(plan.kind) * plan.stack.layers * hidden), 0.0);
  Tensor above(at(plan.batch * plan.steps * out_width));  // gradient of the layer's sequence
  if (!plan.stack.gives_state) above = dy;
  StepGradients flow{Tensor(at(plan.gates() * hidden)), Tensor(at(plan.gates() * hidden))};
  for (int layer = plan.stack.layers; layer-- > 0;) {
    const Tensor& in = memory.inputs[at(layer)];
    Tensor dx(in.size());
    for (int direction = 0; direction < directions; ++direction) {
      const Direction d = direction_of(plan, parameters, layer, direction);
      const DirectionMemory& m = memory.directions[at(layer * directions + direction)];
      Tensor dh(at(plan.batch * hidden)), dc(at(plan.batch * hidden));
      for (Index n = 0; n < plan.batch && plan.stack.gives_state && direction == 0; ++n) {
        std::copy_n(dy.begin() + state_place(plan, n, 0, layer), hidden, dh.begin() + n * hidden);
        if (!m.c.empty())
          std::copy_n(dy.begin() + state_place(plan, n, 1, layer), hidden, dc.begin() + n * hidden);
      }
      Tensor* gradients = out.parameters.data() + 4 * (layer * directions + direction);
      for (Index step = plan.steps; step-- > 0;) {
        for (Index n = 0; n < plan.batch; ++n) {
          const Index row = (n * plan.steps + d.position(step)) * out_width + direction * hidden;
          for (Index i = 0; i < hidden; ++i) dh[at(n * hidden + i)] += above[at(row + i)];
          step_backward(d, step, n, in, m, dh, dc, flow, gradients, dx);
        }
      }
      for (Index n = 0; n < plan.batch && direction == 0; ++n) {
        std::copy_n(dh.begin() + n * hidden, hidden, out.first.begin() + state_place(plan, n, 0, layer));
        if (!m.c.empty())
          std::copy_n(dc.begin() + n * hidden, hidden, out.first.begin() + state_place(plan, n, 1, layer));
      }
    }
    if (layer == 0) {
      out.x = std::move(dx);
      break;
    }
    const Index before = (layer - 1) * static_cast<Index>(dx.size());
    for (std::size_t e = 0; e < dx.size(); ++e) dx[e] *= mask.at(before + static_cast<Index>(e));
    above = std::move(dx);
  }
  return out;
}

}  // namespace foretrain::device::reference
