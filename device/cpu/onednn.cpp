#include "device/cpu/onednn.hpp"

namespace foretrain::device::cpu {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

// Scratchpads are ours, so that they are counted and shared.
dnnl::primitive_attr attributes(bool relu = false) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops after;
    after.append_eltwise(1.0f, algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(after);
  }
  return attributes;
}

struct Taps {
  Dims kernel, strides, dilations, padding;
  explicit Taps(const Window& w)
      : kernel{w.kernel_h, w.kernel_w},
        strides{w.stride_h, w.stride_w},
        dilations{w.dilation_h - 1, w.dilation_w - 1},
        padding{w.pad_h, w.pad_w} {}
};

dnnl::normalization_flags flags_of(bool relu) {
  auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  if (relu) flags |= dnnl::normalization_flags::fuse_norm_relu;
  return flags;
}

algorithm pool_algorithm(bool is_max, const Window& window) {
  if (is_max) return algorithm::pooling_max;
  return window.count_padding ? algorithm::pooling_avg_include_padding
                              : algorithm::pooling_avg_exclude_padding;
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine only(dnnl::engine::kind::cpu, 0);
  return only;
}

dnnl::stream& stream_of_thread() {
  thread_local dnnl::stream stream(engine());
  return stream;
}

bool has_bf16() {
  const auto isa = static_cast<int>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
  return (isa & wanted) == wanted;  // sets of instructions are bits that include each other
}

Layout plain_layout(const Dims& dims, Number number) {
  Dims strides(dims.size());
  memory::dim stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return Layout(dims, number, strides);
}

Layout any_layout(const Dims& dims, Number number) {
  return Layout(dims, number, memory::format_tag::any);
}

Layout no_layout() {
  return Layout();
}

Layout simplest(const Layout& layout) {
  const Dims dims = layout.dims();
  const dnnl_memory_desc_t& facts = layout.data;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (facts.padded_dims[i] != dims[i] || (i >= 2 && dims[i] != 1)) return layout;
  }
  return plain_layout(dims);
}

std::int64_t floats_of(const Layout& layout) {
  return static_cast<std::int64_t>((layout.get_size() + sizeof(float) - 1) / sizeof(float));
}

memory memory_at(const Layout& layout, float* data) {
  return memory(layout, engine(), data);
}

Call reorder(const Layout& from, float* source, const Layout& to, float* target, bool adds) {
  dnnl::primitive_attr how;
  if (adds) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    how.set_post_ops(sum);
  }
  const dnnl::reorder::primitive_desc description(engine(), from, engine(), to, how);
  return Call(dnnl::reorder(description),
              {{DNNL_ARG_FROM, memory_at(from, source)}, {DNNL_ARG_TO, memory_at(to, target)}});
}

dnnl::convolution_forward::primitive_desc convolution_forward(const ConvolutionShape& s) {
  const Taps taps(s.window);
  const dnnl::convolution_forward::desc what(prop_kind::forward_training, algorithm::convolution_direct,
                                             s.source, s.weights, s.bias, s.destination, taps.strides,
                                             taps.dilations, taps.padding, taps.padding);
  return {what, attributes(s.relu), engine()};
}

dnnl::convolution_backward_data::primitive_desc convolution_backward_data(
    const ConvolutionShape& s, const dnnl::convolution_forward::primitive_desc& forward) {
  const Taps taps(s.window);
  const dnnl::convolution_backward_data::desc what(algorithm::convolution_direct, s.source, s.weights,
                                                   s.destination, taps.strides, taps.dilations, taps.padding,
                                                   taps.padding);
  return {what, attributes(), engine(), forward};
}

dnnl::convolution_backward_weights::primitive_desc convolution_backward_weights(
    const ConvolutionShape& s, const dnnl::convolution_forward::primitive_desc& forward) {
  const Taps taps(s.window);
  const dnnl::convolution_backward_weights::desc what(algorithm::convolution_direct, s.source, s.weights,
                                                      s.bias, s.destination, taps.strides, taps.dilations,
                                                      taps.padding, taps.padding);
  return {what, attributes(), engine(), forward};
}

dnnl::inner_product_forward::primitive_desc product_forward(const ProductShape& s) {
  const dnnl::inner_product_forward::desc what(prop_kind::forward_training, s.source, s.weights, s.bias,
                                               s.destination);
  return {what, attributes(s.relu), engine()};
}

dnnl::inner_product_backward_data::primitive_desc product_backward_data(
    const ProductShape& s, const dnnl::inner_product_forward::primitive_desc& forward) {
  const dnnl::inner_product_backward_data::desc what(s.source, s.weights, s.destination);
  return {what, attributes(), engine(), forward};
}

dnnl::inner_product_backward_weights::primitive_desc product_backward_weights(
    const ProductShape& s, const dnnl::inner_product_forward::primitive_desc& forward) {
  const dnnl::inner_product_backward_weights::desc what(s.source, s.weights, s.bias, s.destination);
  return {what, attributes(), engine(), forward};
}

dnnl::batch_normalization_forward::primitive_desc batch_norm_forward(const Layout& data, double epsilon,
                                                                     bool relu) {
  const dnnl::batch_normalization_forward::desc what(prop_kind::forward_training, data,
                                                     static_cast<float>(epsilon), flags_of(relu));
  return {what, attributes(), engine()};
}

dnnl::batch_normalization_backward::primitive_desc batch_norm_backward(
    const Layout& data, double epsilon, bool relu,
    const dnnl::batch_normalization_forward::primitive_desc& forward) {
  const dnnl::batch_normalization_backward::desc what(prop_kind::backward, data, data,
                                                      static_cast<float>(epsilon), flags_of(relu));
  return {what, attributes(), engine(), forward};
}

dnnl::pooling_forward::primitive_desc pool_forward(bool is_max, const Layout& source, const Dims& out,
                                                   const Window& window) {
  const Taps taps(window);
  const dnnl::pooling_forward::desc what(prop_kind::forward_training, pool_algorithm(is_max, window), source,
                                         any_layout(out), taps.strides, taps.kernel, taps.padding,
                                         taps.padding);
  return {what, attributes(), engine()};
}

dnnl::pooling_backward::primitive_desc pool_backward(bool is_max, const Layout& source,
                                                     const Layout& destination, const Window& window,
                                                     const dnnl::pooling_forward::primitive_desc& forward) {
  const Taps taps(window);
  const dnnl::pooling_backward::desc what(pool_algorithm(is_max, window), source, destination, taps.strides,
                                          taps.kernel, taps.padding, taps.padding);
  return {what, attributes(), engine(), forward};
}

}  // namespace foretrain::device::cpu
