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

const dnnl::engine& engine();
dnnl::stream& stream_of_thread();

Layout plain_layout(const Dims& dims);  // fp32, row-major
Layout any_layout(const Dims& dims);
Layout no_layout();
// The row-major layout of the same dimensions, where both are one in memory; else the layout itself.
Layout simplest(const Layout& layout);
std::int64_t floats_of(const Layout& layout);  // padding included
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

}  // namespace foretrain::device::cpu
