#include "sim/training/model_builder.hpp"

#include <utility>

namespace foretrain {
namespace {

std::string quoted(const std::string& name) {
  return "'" + name + "'";
}

// Elements of a shape, or -1 where they pass the limit.
std::int64_t bounded_elements(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count) || count > ModelBuilder::max_elements) return -1;
  }
  return count;
}

bool all_positive(const Shape& shape) {
  for (const std::int64_t extent : shape)
    if (extent < 1) return false;
  return !shape.empty();
}

}  // namespace

Window square_window(int kernel, int stride, int padding, int groups) {
  Window window;
  window.kernel_h = window.kernel_w = kernel;
  window.stride_h = window.stride_w = stride;
  window.pad_h = window.pad_w = padding;
  window.groups = groups;
  return window;
}

ModelBuilder::ModelBuilder(std::string name, Shape input, std::int64_t classes, SourceLocation where)
    : where_(std::move(where)) {
  model_.name = std::move(name);
  model_.classes = classes;
  Layer layer;
  layer.name = "input";
  if (!all_positive(input)) {
    report(where_, "the input needs a shape of positive extents");
  } else if (bounded_elements(input) < 0) {
    report(where_, "the input of " + text_of(input) + " elements is too large");
  } else {
    layer.output = input;
  }
  model_.input = std::move(input);
  push(std::move(layer), where_);
}

void ModelBuilder::report(const SourceLocation& where, std::string what) {
  const std::size_t layer = model_.layers.size();  // the one being added
  if (where.line > 0 &&
      reported_.try_emplace({where.file, where.line, where.column}, layer).first->second != layer)
    return;
  findings_.push_back({where, std::move(what)});
}

int ModelBuilder::push(Layer layer, const SourceLocation& where) {
  if (!full_ && static_cast<int>(model_.layers.size()) >= max_layers) {
    full_ = true;
    report(where, "the model has more than " + std::to_string(max_layers) + " layers");
  }
  if (full_) return static_cast<int>(model_.layers.size()) - 1;
  if (layer.name.empty()) report(where, "a layer needs a name");
  if (!names_.insert(layer.name).second)
    report(where, "there are two layers named " + quoted(layer.name) + "; names must differ");
  if (!layer.output.empty() && bounded_elements(layer.output) < 0) {
    report(where, "output of " + quoted(layer.name) + " is too large: " + text_of(layer.output));
    layer.output.clear();
  }
  model_.layers.push_back(std::move(layer));
  places_.push_back(where);
  return static_cast<int>(model_.layers.size()) - 1;
}

// Whether `from` is a layer whose output is known and may be read by `layer`.
bool ModelBuilder::readable(int from, const Layer& layer, const SourceLocation& where) {
  if (from < 0 || from >= static_cast<int>(model_.layers.size())) {
    report(where, quoted(layer.name) + " reads a layer that does not exist");
    return false;
  }
  const Layer& source = model_.layers[static_cast<std::size_t>(from)];
  if (source.kind == LayerKind::softmax_cross_entropy) {
    report(where, quoted(layer.name) + " reads the loss, which ends a model");
    return false;
  }
  return !source.output.empty();
}

bool ModelBuilder::image(const Layer& layer, const SourceLocation& where) {
  const Shape& shape = output(layer.inputs.front());
  if (shape.size() == 3) return true;
  report(where, std::string(name_of(layer.kind)) + " " + quoted(layer.name) +
                    " needs channels x height x width, but its input is " + text_of(shape));
  return false;
}

bool ModelBuilder::check_window(const Layer& layer, const SourceLocation& where) {
  const Window& w = layer.window;
  const std::string subject = std::string(name_of(layer.kind)) + " " + quoted(layer.name);
  if (w.kernel_h < 1 || w.kernel_w < 1 || w.stride_h < 1 || w.stride_w < 1 || w.dilation_h < 1 ||
      w.dilation_w < 1) {
    report(where, subject + ": kernel, stride and dilation are at least 1");
    return false;
  }
  if (w.pad_h < 0 || w.pad_w < 0) {
    report(where, subject + ": padding is at least 0");
    return false;
  }
  const bool is_pool = layer.kind != LayerKind::conv2d;
  if (is_pool && (w.pad_h > w.kernel_h / 2 || w.pad_w > w.kernel_w / 2)) {
    report(where, subject + ": padding of a pool is at most half its kernel");
    return false;
  }
  return true;
}

// Output shape of a window that slides over an image; empty where it does not fit.
Shape ModelBuilder::slide(const Layer& layer, std::int64_t channels, const SourceLocation& where) {
  const Shape& in = output(layer.inputs.front());
  const Window& w = layer.window;
  const auto extent = [](std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                         std::int64_t dilation) {
    const std::int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
  };
  const std::int64_t height = extent(in[1], w.kernel_h, w.stride_h, w.pad_h, w.dilation_h);
  const std::int64_t width = extent(in[2], w.kernel_w, w.stride_w, w.pad_w, w.dilation_w);
  if (height < 1 || width < 1) {
    report(where, std::string(name_of(layer.kind)) + " " + quoted(layer.name) + ": a kernel of " +
                      std::to_string(w.kernel_h) + "x" + std::to_string(w.kernel_w) +
                      " does not fit into an input of " + text_of(in) +
                      "; use a smaller kernel, more padding or fewer strides before it");
    return {};
  }
  return {channels, height, width};
}

void ModelBuilder::register_parameter(Layer& layer, const std::string& name, Shape shape,
                                      const SourceLocation& where) {
  Parameter parameter;
  parameter.name = layer.name + "." + name;
  parameter.elements = bounded_elements(shape);
  if (parameter.elements < 0) {
    report(where, "parameter " + quoted(parameter.name) + " is too large: " + text_of(shape));
    parameter.elements = 0;
  }
  parameter.shape = std::move(shape);
  parameter.layer = static_cast<int>(model_.layers.size());  // the layer is pushed next
  if (full_ || parameter.layer >= max_layers) return;
  layer.parameters.push_back(static_cast<int>(model_.parameters.size()));
  model_.parameters.push_back(std::move(parameter));
}

int ModelBuilder::conv2d(const std::string& name, int from, std::int64_t out, const Window& window, bool bias,
                         const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::conv2d;
  layer.inputs = {from};
  layer.window = window;
  layer.bias = bias;
  if (!readable(from, layer, where) || !image(layer, where) || !check_window(layer, where))
    return push(std::move(layer), where);
  const std::int64_t in = output(from)[0];
  if (out < 1) {
    report(where, "conv2d " + quoted(name) + " needs at least one output channel");
    return push(std::move(layer), where);
  }
  if (window.groups < 1 || in % window.groups != 0 || out % window.groups != 0) {
    report(where, "conv2d " + quoted(name) + ": groups (" + std::to_string(window.groups) +
                      ") must divide the channels of input (" + std::to_string(in) + ") and output (" +
                      std::to_string(out) + ")");
    return push(std::move(layer), where);
  }
  layer.output = slide(layer, out, where);
  if (layer.output.empty()) return push(std::move(layer), where);
  const std::int64_t per_group = in / window.groups;
  register_parameter(layer, "weight", {out, per_group, window.kernel_h, window.kernel_w}, where);
  if (bias) register_parameter(layer, "bias", {out}, where);
  layer.forward_flops =
      Flops(2.0 * static_cast<double>(out) * static_cast<double>(per_group) * window.kernel_h *
            window.kernel_w * static_cast<double>(layer.output[1]) * static_cast<double>(layer.output[2]));
  return push(std::move(layer), where);
}

int ModelBuilder::batch_norm(const std::string& name, int from, double epsilon, double momentum,
                             const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::batch_norm;
  layer.inputs = {from};
  layer.epsilon = epsilon;
  layer.momentum = momentum;
  if (!(epsilon > 0)) report(where, "batch_norm " + quoted(name) + ": epsilon is above 0");
  if (!(momentum >= 0 && momentum <= 1))
    report(where, "batch_norm " + quoted(name) + ": momentum lies between 0 and 1");
  if (readable(from, layer, where) && image(layer, where)) {
    layer.output = output(from);
    const std::int64_t channels = layer.output[0];
    register_parameter(layer, "weight", {channels}, where);
    register_parameter(layer, "bias", {channels}, where);
    layer.buffers = {{channels}, {channels}};
  }
  return push(std::move(layer), where);
}

int ModelBuilder::elementwise(LayerKind kind, const std::string& name, int from,
                              const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = kind;
  layer.inputs = {from};
  if (readable(from, layer, where)) {
    layer.output = output(from);
    if (kind == LayerKind::flatten) layer.output = {element_count(layer.output)};
  }
  return push(std::move(layer), where);
}

int ModelBuilder::relu(const std::string& name, int from, const SourceLocation& where) {
  return elementwise(LayerKind::relu, name, from, where);
}

int ModelBuilder::flatten(const std::string& name, int from, const SourceLocation& where) {
  return elementwise(LayerKind::flatten, name, from, where);
}

int ModelBuilder::pool(LayerKind kind, const std::string& name, int from, const Window& window,
                       const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = kind;
  layer.inputs = {from};
  layer.window = window;
  if (readable(from, layer, where) && image(layer, where) && check_window(layer, where))
    layer.output = slide(layer, output(from)[0], where);
  return push(std::move(layer), where);
}

int ModelBuilder::max_pool(const std::string& name, int from, const Window& window,
                           const SourceLocation& where) {
  return pool(LayerKind::max_pool, name, from, window, where);
}

int ModelBuilder::avg_pool(const std::string& name, int from, const Window& window,
                           const SourceLocation& where) {
  return pool(LayerKind::avg_pool, name, from, window, where);
}

int ModelBuilder::global_pool(const std::string& name, int from, const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::global_pool;
  layer.inputs = {from};
  if (readable(from, layer, where) && image(layer, where)) layer.output = {output(from)[0], 1, 1};
  return push(std::move(layer), where);
}

int ModelBuilder::linear(const std::string& name, int from, std::int64_t out, bool bias,
                         const SourceLocation& where, int tied) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::linear;
  layer.inputs = {from};
  layer.bias = bias;
  if (!readable(from, layer, where) || !rows(layer, from, where)) return push(std::move(layer), where);
  const std::int64_t in = output(from).back();
  if (tied >= 0 && out < 1) {  // as many as the rows of the weight that it shares
    const Layer& owner = model_.layers.at(static_cast<std::size_t>(tied));
    if (!owner.parameters.empty())
      out = model_.parameters[static_cast<std::size_t>(owner.parameters[0])].shape[0];
  }
  if (out < 1) {
    report(where, "linear " + quoted(name) + " needs at least one output feature");
    return push(std::move(layer), where);
  }
  if (tied >= 0) {
    if (tied_weight(layer, tied, {out, in}, where) < 0) return push(std::move(layer), where);
  } else {
    register_parameter(layer, "weight", {out, in}, where);
  }
  layer.output = output(from);
  layer.output.back() = out;
  if (bias) register_parameter(layer, "bias", {out}, where);
  const double count = static_cast<double>(bounded_elements(layer.output));
  layer.forward_flops = Flops(2.0 * count * static_cast<double>(in));
  return push(std::move(layer), where);
}

// Inputs of one shape, at least two.
bool ModelBuilder::joined(Layer& layer, const std::vector<int>& from, const char* verb,
                          const SourceLocation& where) {
  const std::string subject = std::string(name_of(layer.kind)) + " " + quoted(layer.name);
  layer.inputs = from;
  if (from.size() < 2) report(where, subject + " " + verb + " at least two inputs");
  bool known = from.size() >= 2;
  for (const int input : from) known = readable(input, layer, where) && known;
  if (!known) return false;
  for (const int input : from) {
    if (output(input) == output(from.front())) continue;
    report(where, subject + " " + verb + " branches of different shapes: " + text_of(output(from.front())) +
                      " and " + text_of(output(input)));
    return false;
  }
  layer.output = output(from.front());
  return true;
}

int ModelBuilder::add(const std::string& name, const std::vector<int>& from, const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::add;
  joined(layer, from, "joins", where);
  return push(std::move(layer), where);
}

int ModelBuilder::multiply(const std::string& name, const std::vector<int>& from,
                           const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::multiply;
  joined(layer, from, "joins", where);
  return push(std::move(layer), where);
}

int ModelBuilder::softmax_cross_entropy(const std::string& name, int from, const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::softmax_cross_entropy;
  layer.inputs = {from};
  if (!readable(from, layer, where)) return push(std::move(layer), where);
  const Shape in = output(from);
  const bool is_sequence = in.size() == 2 && model_.sequence > 0 && in[0] == model_.sequence;
  if (in.size() != 1 && !is_sequence) {
    report(where, "softmax_cross_entropy needs one value a class, but its input is " + text_of(in) +
                      (model_.sequence > 0 ? "" : "; put flatten before it"));
  } else if (in.back() != model_.classes) {
    report(where, "softmax_cross_entropy reads " + std::to_string(in.back()) + " values, but the model has " +
                      std::to_string(model_.classes) + " classes");
  } else {
    layer.output = {1};
  }
  return push(std::move(layer), where);
}

int ModelBuilder::measured(const std::string& name, int from, const MeasuredLayer& given,
                           const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::measured;
  layer.inputs = {from};
  layer.measured = given.times;
  const MeasuredTimes& t = given.times;
  if (t.forward.count() < 0 || t.forward_per_sample.count() < 0 || t.backward.count() < 0 ||
      t.backward_per_sample.count() < 0)
    report(where, "measured " + quoted(name) + ": times are at least 0");
  if (t.launches_forward < 0 || t.launches_backward < 0)
    report(where, "measured " + quoted(name) + ": launches are at least 0");
  if (!all_positive(given.output)) {
    report(where, "measured " + quoted(name) + " needs an output shape of positive extents");
  } else if (readable(from, layer, where)) {
    layer.output = given.output;
  }
  for (const Parameter& parameter : given.parameters) {
    if (!all_positive(parameter.shape)) {
      report(where, "parameter " + quoted(parameter.name) + " of " + quoted(name) +
                        " needs a shape of positive extents");
      continue;
    }
    register_parameter(layer, parameter.name, parameter.shape, where);
  }
  return push(std::move(layer), where);
}

int ModelBuilder::unreadable(const std::string& name, int from) {
  Layer layer;
  layer.name = name;
  layer.inputs = {from};
  has_unreadable_ = true;
  return push(std::move(layer), where_);
}

Model ModelBuilder::finish() {
  if (findings_.empty() && !has_unreadable_) {
    const auto consumers = consumers_of(model_);
    const std::size_t last = model_.layers.size() - 1;
    if (model_.layers[last].kind != LayerKind::softmax_cross_entropy)
      report(places_[last], "the model ends with " + quoted(model_.layers[last].name) +
                                "; a model to be trained ends with softmax_cross_entropy");
    for (std::size_t i = 0; i < last; ++i)
      if (consumers[i].empty())
        report(places_[i], "no layer reads the output of " + quoted(model_.layers[i].name));
  }
  if (!findings_.empty()) throw Error(findings_);
  return std::move(model_);
}

}  // namespace foretrain
