// oneDNN's primitives as the operators use them: the one place that knows the 2.x descriptors, which 3.x has
// no more.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <unordered_map>
#include <vector>

#include "sim/training/model.hpp"

namespace foretrain::device::cpu {

// Shape, type and order in memory; "any" until a primitive has chosen.
using Layout = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

// Whether the processor multiplies numbers of bf16.
bool has_bf16();

const dnnl::engine& engine();
dnnl::stream& stream_of_thread();

using Number = dnnl::memory::data_type;
Layout plain_layout(const Dims& dims, Number number = Number::f32);  // row-major
Layout any_layout(const Dims& dims, Number number = Number::f32);
Layout no_layout();
// The row-major layout of the same dimensions, where both are one in memory; else the layout itself.
Layout simplest(const Layout& layout);
std::int64_t floats_of(const Layout& layout);  // padding included; of shorter numbers, that take as much room
dnnl::memory memory_at(const Layout& layout, float* data);

// A primitive with what it reads and writes.
class Call {
 public:
  using Arguments = std::unordered_map<int, dnnl::memory>;
  Call() = default;
  Call(dnnl::primitive primitive, Arguments arguments)
      : primitive_(std::move(primitive)), arguments_(std::move(arguments)) {}
  void run() const { primitive_.execute(stream_of_thread(), arguments_); }

 private:
  dnnl::primitive primitive_;
  Arguments arguments_;
};

// From one layout to another; adds to what is there where `adds`.
Call reorder(const Layout& from, float* source, const Layout& to, float* target, bool adds = false);

// Weights and bias (zero, where there is none) of a convolution are in the order of Parameter::shape, groups
// ahead where there are several. Layouts that are "any" are chosen by the library.
struct ConvolutionShape {
  Layout source, weights, bias, destination;
  Window window;
  bool relu = false;  // of the result
};
dnnl::convolution_forward::primitive_desc convolution_forward(const ConvolutionShape& shape);
dnnl::convolution_backward_data::primitive_desc convolution_backward_data(
    const ConvolutionShape& shape, const dnnl::convolution_forward::primitive_desc& forward);
dnnl::convolution_backward_weights::primitive_desc convolution_backward_weights(
    const ConvolutionShape& shape, const dnnl::convolution_forward::primitive_desc& forward);

struct ProductShape {
  Layout source, weights, bias, destination;
  bool relu = false;
};
dnnl::inner_product_forward::primitive_desc product_forward(const ProductShape& shape);
dnnl::inner_product_backward_data::primitive_desc product_backward_data(
    const ProductShape& shape, const dnnl::inner_product_forward::primitive_desc& forward);
dnnl::inner_product_backward_weights::primitive_desc product_backward_weights(
    const ProductShape& shape, const dnnl::inner_product_forward::primitive_desc& forward);

dnnl::batch_normalization_forward::primitive_desc batch_norm_forward(const Layout& data, double epsilon,
                                                                     bool relu);
dnnl::batch_normalization_backward::primitive_desc batch_norm_backward(
    const Layout& data, double epsilon, bool relu,
    const dnnl::batch_normalization_forward::primitive_desc& forward);

// A window without dilation; of avg_pool padding counts or not (Window::count_padding).
dnnl::pooling_forward::primitive_desc pool_forward(bool is_max, const Layout& source, const Dims& out,
                                                   const Window& window);
dnnl::pooling_backward::primitive_desc pool_backward(bool is_max, const Layout& source,
                                                     const Layout& destination, const Window& window,
                                                     const dnnl::pooling_forward::primitive_desc& forward);

// Of rows {rows, features}, with mean and variance of each; a shift where there is one.
dnnl::layer_normalization_forward::primitive_desc layer_norm_forward(const Layout& rows, double epsilon,
                                                                     bool shifts);
dnnl::layer_normalization_backward::primitive_desc layer_norm_backward(
    const Layout& rows, double epsilon, bool shifts,
    const dnnl::layer_normalization_forward::primitive_desc& forward);

// gelu, exact or by tanh, and silu, of each element.
dnnl::eltwise_forward::primitive_desc activation_forward(LayerKind kind, bool approximate,
                                                         const Layout& layout);
dnnl::eltwise_backward::primitive_desc activation_backward(
    LayerKind kind, bool approximate, const Layout& layout,
    const dnnl::eltwise_forward::primitive_desc& forward);

// c = factor op(a) op(b), added to c where `adds`; row-major, `rows` x `columns`, each with the distance of
// its rows, of the operands as they lie in memory. By one thread inside of a parallel region.
struct Matrix {
  const float* data = nullptr;
  std::int64_t stride = 0;
  bool is_transposed = false;
};
void multiply_matrices(std::int64_t rows, std::int64_t columns, std::int64_t inner, float factor, Matrix a,
                       Matrix b, bool adds, float* c, std::int64_t stride);

// One layer of a stack, both directions: source {steps, batch, width}, result {steps, batch, directions x
// hidden}, states {1, directions, batch, hidden}. Gates in the library's order: that of Layer but for gru,
// which begins with z and has a bias more, of what comes from the state into n.
struct RecurrenceShape {
  LayerKind kind = LayerKind::lstm;
  std::int64_t steps = 1, batch = 1, width = 1, hidden = 1, directions = 1;

  std::int64_t gates() const { return gates_of(kind); }
  std::int64_t biases() const { return kind == LayerKind::gru ? gates() + 1 : gates(); }
  Layout source() const, result() const, states() const, bias() const;
  // {1, directions, inputs, gates, hidden}: with the inputs of a gate one after the other, as a parameter
  // has them, or with the gates of an input.
  Layout weights(std::int64_t inputs, bool inputs_last) const;
};
// The forward primitive reads weights with the gates of an input together, the backward primitive reads those
// with the inputs of a gate and gives gradients as the forward one reads weights.
struct RecurrencePrimitives {
  dnnl::primitive forward, backward;
  Layout workspace, forward_scratchpad, backward_scratchpad;
};
RecurrencePrimitives recurrence_primitives(const RecurrenceShape& shape);

}  // namespace foretrain::device::cpu
