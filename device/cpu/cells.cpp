#include "device/cpu/cells.hpp"

#include "device/cpu/fast_math.hpp"
#include "device/cpu/loops.hpp"
#include "device/cpu/vector_clones.hpp"

namespace foretrain::device::cpu {
namespace {

// Of one sample, by gate: what goes into it and what is kept of it.
struct Row {
  const float *x, *h, *bx, *bh, *h_before, *c_before;
  float *gates, *reset, *h_after, *c_after;
};

FORETRAIN_VECTOR_CLONES void rnn_row(const Row& r, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = tanh_of(r.x[i] + r.h[i] + r.bx[i] + r.bh[i]);
    r.gates[i] = value;
    r.h_after[i] = value;
  }
}

FORETRAIN_VECTOR_CLONES void lstm_row(const Row& r, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t f = i + n, g = i + 2 * n, o = i + 3 * n;
    const float in = logistic_of(r.x[i] + r.h[i] + r.bx[i] + r.bh[i]);
    const float forget = logistic_of(r.x[f] + r.h[f] + r.bx[f] + r.bh[f]);
    const float fresh = tanh_of(r.x[g] + r.h[g] + r.bx[g] + r.bh[g]);
    const float out = logistic_of(r.x[o] + r.h[o] + r.bx[o] + r.bh[o]);
    const float c = forget * r.c_before[i] + in * fresh;
    r.gates[i] = in;
    r.gates[f] = forget;
    r.gates[g] = fresh;
    r.gates[o] = out;
    r.c_after[i] = c;
    r.h_after[i] = out * tanh_of(c);
  }
}

FORETRAIN_VECTOR_CLONES void gru_row(const Row& row, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t z = i + n, c = i + 2 * n;
    const float reset = logistic_of(row.x[i] + row.h[i] + row.bx[i] + row.bh[i]);
    const float keep = logistic_of(row.x[z] + row.h[z] + row.bx[z] + row.bh[z]);
    const float recurrent = row.h[c] + row.bh[c];
    const float fresh = tanh_of(row.x[c] + row.bx[c] + reset * recurrent);
    row.gates[i] = reset;
    row.gates[z] = keep;
    row.gates[c] = fresh;
    row.reset[i] = recurrent;
    row.h_after[i] = (1 - keep) * fresh + keep * row.h_before[i];
  }
}

struct BackwardRow {
  const float *gates, *reset, *h_before, *c_before, *c_after, *dout;
  float *dh, *dc, *d_input, *d_state;
};

FORETRAIN_VECTOR_CLONES void rnn_row_backward(const BackwardRow& r, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) {
    r.d_input[i] = (r.dh[i] + r.dout[i]) * (1 - r.gates[i] * r.gates[i]);
    r.dh[i] = 0;
  }
}

FORETRAIN_VECTOR_CLONES void lstm_row_backward(const BackwardRow& r, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t f = i + n, g = i + 2 * n, o = i + 3 * n;
    const float in = r.gates[i], forget = r.gates[f], fresh = r.gates[g], out = r.gates[o];
    const float flow = r.dh[i] + r.dout[i], t = tanh_of(r.c_after[i]);
    const float c = r.dc[i] + flow * out * (1 - t * t);
    r.d_input[i] = c * fresh * in * (1 - in);
    r.d_input[f] = c * r.c_before[i] * forget * (1 - forget);
    r.d_input[g] = c * in * (1 - fresh * fresh);
    r.d_input[o] = flow * t * out * (1 - out);
    r.dc[i] = c * forget;
    r.dh[i] = 0;
  }
}

FORETRAIN_VECTOR_CLONES void gru_row_backward(const BackwardRow& r, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t z = i + n, c = i + 2 * n;
    const float reset = r.gates[i], keep = r.gates[z], fresh = r.gates[c];
    const float flow = r.dh[i] + r.dout[i];
    const float into_fresh = flow * (1 - keep) * (1 - fresh * fresh);
    const float into_keep = flow * (r.h_before[i] - fresh) * keep * (1 - keep);
    const float into_reset = into_fresh * r.reset[i] * reset * (1 - reset);
    r.d_input[i] = into_reset;
    r.d_state[i] = into_reset;
    r.d_input[z] = into_keep;
    r.d_state[z] = into_keep;
    r.d_input[c] = into_fresh;
    r.d_state[c] = into_fresh * reset;
    r.dh[i] = flow * keep;
  }
}

const float* place(const float* data, std::int64_t offset) {
  return data == nullptr ? nullptr : data + offset;
}
float* place(float* data, std::int64_t offset) {
  return data == nullptr ? nullptr : data + offset;
}

}  // namespace

void cell_forward(const CellStep& s) {
  const std::int64_t rows = gates_of(s.kind) * s.hidden;
  parallel_rows(s.batch, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t n = first; n < last; ++n) {
      const std::int64_t state = n * s.hidden;
      const Row row{s.from_input + n * rows,
                    s.from_state + n * rows,
                    s.bias_input,
                    s.bias_state,
                    place(s.h_before, state),
                    place(s.c_before, state),
                    s.gates + n * rows,
                    place(s.reset, state),
                    s.h + state,
                    place(s.c, state)};
      (s.kind == LayerKind::lstm ? lstm_row : s.kind == LayerKind::gru ? gru_row : rnn_row)(row, s.hidden);
      std::copy_n(s.h + state, s.hidden, s.out + n * s.out_stride);
    }
  });
}

void cell_backward(const CellStep& s, const CellGradients& g) {
  const std::int64_t rows = gates_of(s.kind) * s.hidden;
  parallel_rows(s.batch, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t n = first; n < last; ++n) {
      const std::int64_t state = n * s.hidden;
      const BackwardRow row{s.gates + n * rows,
                            place(s.reset, state),
                            place(s.h_before, state),
                            place(s.c_before, state),
                            place(s.c, state),
                            g.dout + n * s.out_stride,
                            g.dh + state,
                            place(g.dc, state),
                            g.d_input + n * rows,
                            g.d_state + n * rows};
      (s.kind == LayerKind::lstm  ? lstm_row_backward
       : s.kind == LayerKind::gru ? gru_row_backward
                                  : rnn_row_backward)(row, s.hidden);
    }
  });
}

}  // namespace foretrain::device::cpu
