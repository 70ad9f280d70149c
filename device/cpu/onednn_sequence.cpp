// Primitives of the layers of sequences.
#include "device/cpu/onednn.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::cpu {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

dnnl::primitive_attr own_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::normalization_flags flags_of(bool shifts) {
  const auto scales = dnnl::normalization_flags::use_scale;
  return shifts ? scales | dnnl::normalization_flags::use_shift : scales;
}

algorithm activation_of(LayerKind kind, bool approximate) {
  if (kind == LayerKind::silu) return algorithm::eltwise_swish;
  return approximate ? algorithm::eltwise_gelu_tanh : algorithm::eltwise_gelu_erf;
}

constexpr auto number = memory::data_type::f32;

template <typename Forward, typename Backward, typename ForwardDescription, typename BackwardDescription>
RecurrencePrimitives both(const ForwardDescription& forward, const BackwardDescription& backward) {
  const typename Forward::primitive_desc f(forward, own_scratchpad(), engine());
  const typename Backward::primitive_desc b(backward, own_scratchpad(), engine(), f);
  return {Forward(f), Backward(b), f.workspace_desc(), f.scratchpad_desc(), b.scratchpad_desc()};
}

}  // namespace

dnnl::layer_normalization_forward::primitive_desc layer_norm_forward(const Layout& rows, double epsilon,
                                                                     bool shifts) {
  const dnnl::layer_normalization_forward::desc what(prop_kind::forward_training, rows,
                                                     static_cast<float>(epsilon), flags_of(shifts));
  return {what, own_scratchpad(), engine()};
}

dnnl::layer_normalization_backward::primitive_desc layer_norm_backward(
    const Layout& rows, double epsilon, bool shifts,
    const dnnl::layer_normalization_forward::primitive_desc& forward) {
  const dnnl::layer_normalization_backward::desc what(prop_kind::backward, rows, rows,
                                                      static_cast<float>(epsilon), flags_of(shifts));
  return {what, own_scratchpad(), engine(), forward};
}

dnnl::eltwise_forward::primitive_desc activation_forward(LayerKind kind, bool approximate,
                                                         const Layout& layout) {
  const dnnl::eltwise_forward::desc what(prop_kind::forward_training, activation_of(kind, approximate),
                                         layout, 1.0f);
  return {what, own_scratchpad(), engine()};
}

dnnl::eltwise_backward::primitive_desc activation_backward(
    LayerKind kind, bool approximate, const Layout& layout,
    const dnnl::eltwise_forward::primitive_desc& forward) {
  const dnnl::eltwise_backward::desc what(activation_of(kind, approximate), layout, layout, 1.0f);
  return {what, own_scratchpad(), engine(), forward};
}

void multiply_matrices(std::int64_t rows, std::int64_t columns, std::int64_t inner, float factor, Matrix a,
                       Matrix b, bool adds, float* c, std::int64_t stride) {
  const auto letter = [](const Matrix& m) { return m.is_transposed ? 'T' : 'N'; };
  const dnnl_status_t status = dnnl_sgemm(letter(a), letter(b), rows, columns, inner, factor, a.data,
                                          a.stride, b.data, b.stride, adds ? 1.0f : 0.0f, c, stride);
  if (status != dnnl_success)
    throw Error(ErrorKind::failure, "dnnl_sgemm failed with status " + std::to_string(status));
}

Layout RecurrenceShape::source() const {
  return plain_layout({steps, batch, width});
}
Layout RecurrenceShape::result() const {
  return plain_layout({steps, batch, directions * hidden});
}
Layout RecurrenceShape::states() const {
  return plain_layout({1, directions, batch, hidden});
}
Layout RecurrenceShape::bias() const {
  return plain_layout({1, directions, biases(), hidden});
}
Layout RecurrenceShape::weights(std::int64_t inputs, bool inputs_last) const {
  const Dims dims{1, directions, inputs, gates(), hidden};
  if (!inputs_last) return plain_layout(dims);
  const std::int64_t all = inputs * gates() * hidden;
  return Layout(dims, number, Dims{directions * all, all, 1, hidden * inputs, inputs});
}

RecurrencePrimitives recurrence_primitives(const RecurrenceShape& s) {
  const auto direction = s.directions == 2 ? dnnl::rnn_direction::bidirectional_concat
                                           : dnnl::rnn_direction::unidirectional_left2right;
  const Layout x = s.source(), y = s.result(), h = s.states(), b = s.bias();
  const Layout wx = s.weights(s.width, false), wh = s.weights(s.hidden, false);
  const Layout wx_back = s.weights(s.width, true), wh_back = s.weights(s.hidden, true);
  const auto forward = prop_kind::forward_training, backward = prop_kind::backward;
  if (s.kind == LayerKind::lstm) {
    using F = dnnl::lstm_forward;
    using B = dnnl::lstm_backward;
    return both<F, B>(
        F::desc(forward, direction, x, h, h, wx, wh, b, y, h, h),
        B::desc(backward, direction, x, h, h, wx_back, wh_back, b, y, h, h, x, h, h, wx, wh, b, y, h, h));
  }
  if (s.kind == LayerKind::gru) {
    using F = dnnl::lbr_gru_forward;
    using B = dnnl::lbr_gru_backward;
    return both<F, B>(F::desc(forward, direction, x, h, wx, wh, b, y, h),
                      B::desc(backward, direction, x, h, wx_back, wh_back, b, y, h, x, h, wx, wh, b, y, h));
  }
  using F = dnnl::vanilla_rnn_forward;
  using B = dnnl::vanilla_rnn_backward;
  const auto tanh = algorithm::eltwise_tanh;
  return both<F, B>(
      F::desc(forward, tanh, direction, x, h, wx, wh, b, y, h),
      B::desc(backward, tanh, direction, x, h, wx_back, wh_back, b, y, h, x, h, wx, wh, b, y, h));
}

}  // namespace foretrain::device::cpu
