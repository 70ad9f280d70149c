#include "sim/import/onnx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/error.hpp"
#include "sim/base/utf8.hpp"
#include "sim/import/onnx_graph.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/model_reader.hpp"

namespace foretrain {
namespace {

bool is_real(int type) {
  return type == 1 || type == 10 || type == 11 || type == 16;
}

class Builder {
 public:
  explicit Builder(const OnnxGraph& graph) : graph_(graph) {}

  // The layers' lines; what is not ours is counted in lacking().
  std::string layers() {
    if (graph_.inputs.empty()) ++lacking_["an input"];
    if (!graph_.inputs.empty()) layer_of_[graph_.inputs.front().first] = "input";
    for (std::size_t i = 1; i < graph_.inputs.size(); ++i) ++lacking_["a further input"];
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) add(graph_.nodes[i]);
    out_ += "  - softmax_cross_entropy: { name: loss }\n";
    return out_;
  }
  const std::map<std::string, int>& lacking() const { return lacking_; }
  std::int64_t classes() const { return last_features_; }

 private:
  const OnnxTensor* weight(const OnnxNode& node, std::size_t input) const {
    if (input >= node.inputs.size()) return nullptr;
    const auto found = graph_.weights.find(node.inputs[input]);
    return found == graph_.weights.end() ? nullptr : &found->second;
  }

  void lack(const OnnxNode& node, const std::string& why = "") {
    ++lacking_[node.kind + (why.empty() ? "" : " " + why)];
    for (const std::string& output : node.outputs) layer_of_[output] = "input";
  }

  // The name that PyTorch gave: of the weight "layer1.0.conv1.weight", else of the node.
  std::string name_of_layer(const OnnxNode& node, std::size_t weight_input) {
    std::string name = node.name;
    if (weight_input < node.inputs.size() && graph_.weights.contains(node.inputs[weight_input])) {
      const std::string& full = node.inputs[weight_input];
      const std::size_t dot = full.rfind(".weight");
      if (dot != std::string::npos) name = full.substr(0, dot);
    }
    std::string clean;
    for (const char c : name) {
      const bool is_plain =
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
      if (is_plain) clean += c;
      if (!is_plain && !clean.empty() && clean.back() != '_') clean += '_';
    }
    if (clean.empty() || clean == "input" || clean == "loss" || (clean[0] >= '0' && clean[0] <= '9'))
      clean = node.kind + "_" + clean;
    std::string unique = clean;
    for (int n = 2; !names_.insert(unique).second; ++n) unique = fmt::format("{}_{}", clean, n);
    return unique;
  }

  void put(const OnnxNode& node, const char* kind, const std::string& name, const std::string& from,
           const std::string& keys) {
    out_ += fmt::format("  - {}: {{ name: \"{}\", from: {}{} }}\n", kind, name, from, keys);
    layer_of_[node.outputs.front()] = name;
  }

  std::string source(const std::string& tensor) {
    const auto found = layer_of_.find(tensor);
    return found == layer_of_.end() ? "\"input\"" : "\"" + found->second + "\"";
  }

  void pass_through(const OnnxNode& node) {
    if (node.inputs.empty() || node.outputs.empty()) return;
    const auto found = layer_of_.find(node.inputs.front());
    if (found != layer_of_.end()) layer_of_[node.outputs.front()] = found->second;
  }

  static std::string pair_text(std::int64_t a, std::int64_t b) {
    return a == b ? std::to_string(a) : fmt::format("[{}, {}]", a, b);
  }

  // ", kernel: 3, stride: 2, padding: 1"; false where the edges are padded unequally, or a window is not of
  // two dimensions.
  bool window(const OnnxNode& node, const std::vector<std::int64_t>& kernel, bool has_dilation,
              std::string& keys) const {
    const auto list = [&](const char* name, std::int64_t otherwise, std::size_t count) {
      const auto found = node.integers.find(name);
      return found != node.integers.end() && found->second.size() == count ? found->second
                                                                           : std::vector(count, otherwise);
    };
    if (kernel.size() != 2) return false;
    const auto strides = list("strides", 1, 2), pads = list("pads", 0, 4),
               dilations = list("dilations", 1, 2);
    if (pads[0] != pads[2] || pads[1] != pads[3]) return false;
    keys += fmt::format(", kernel: {}, stride: {}, padding: {}", pair_text(kernel[0], kernel[1]),
                        pair_text(strides[0], strides[1]), pair_text(pads[0], pads[1]));
    if (has_dilation && (dilations[0] != 1 || dilations[1] != 1))
      keys += ", dilation: " + pair_text(dilations[0], dilations[1]);
    return true;
  }

  void add(const OnnxNode& node) {
    static const std::set<std::string> nothing = {"Identity", "Dropout", "Cast", "Softmax", "LogSoftmax"};
    static const std::set<std::string> of_shapes = {"Constant", "Shape", "Unsqueeze", "Slice"};
    // Without an output it is nothing's input either.
    if (node.inputs.empty() || node.outputs.empty() || of_shapes.contains(node.kind)) return;
    const std::string from = source(node.inputs.front());
    std::string keys;
    if (nothing.contains(node.kind)) {
      pass_through(node);
    } else if (node.kind == "Conv") {
      const OnnxTensor* kernel = weight(node, 1);
      if (kernel == nullptr || kernel->shape.size() != 4) return lack(node, "of other than two dimensions");
      keys = fmt::format(", out: {}", kernel->shape[0]);
      if (!window(node, {kernel->shape[2], kernel->shape[3]}, true, keys))
        return lack(node, "with unequal padding");
      if (const std::int64_t groups = node.integer("group", 1); groups != 1)
        keys += fmt::format(", groups: {}", groups);
      keys += fmt::format(", bias: {}", node.inputs.size() > 2);
      last_features_ = kernel->shape[0];
      put(node, "conv2d", name_of_layer(node, 1), from, keys);
    } else if (node.kind == "BatchNormalization") {
      put(node, "batch_norm", name_of_layer(node, 1), from, "");
    } else if (node.kind == "Relu" || node.kind == "Gelu") {
      put(node, node.kind == "Relu" ? "relu" : "gelu", name_of_layer(node, node.inputs.size()), from, "");
    } else if (node.kind == "MaxPool" || node.kind == "AveragePool") {
      const bool is_max = node.kind == "MaxPool";
      const auto kernel = node.integers.find("kernel_shape");
      if (kernel == node.integers.end() || node.integer("ceil_mode", 0) != 0 ||
          !window(node, kernel->second, is_max, keys))
        return lack(node, "with unequal padding or rounded up");
      if (!is_max) keys += fmt::format(", count_padding: {}", node.integer("count_include_pad", 0) != 0);
      put(node, is_max ? "max_pool" : "avg_pool", name_of_layer(node, node.inputs.size()), from, keys);
    } else if (node.kind == "GlobalAveragePool") {
      put(node, "global_pool", name_of_layer(node, node.inputs.size()), from, "");
    } else if (node.kind == "Flatten" || node.kind == "Reshape" || node.kind == "Squeeze") {
      put(node, "flatten", name_of_layer(node, node.inputs.size()), from, "");
    } else if (node.kind == "Gemm" || node.kind == "MatMul") {
      add_product(node, from);
    } else if (node.kind == "LayerNormalization") {
      put(node, "layer_norm", name_of_layer(node, 1), from,
          fmt::format(", bias: {}", node.inputs.size() > 2));
    } else if (node.kind == "Add" || node.kind == "Mul" || node.kind == "Concat") {
      add_join(node);
    } else {
      lack(node);
    }
  }

  void add_product(const OnnxNode& node, const std::string& from) {
    const OnnxTensor* matrix = weight(node, 1);
    if (matrix == nullptr || matrix->shape.size() != 2) return lack(node, "of two results");
    const bool is_transposed = node.kind == "Gemm" && node.integer("transB", 0) != 0;
    last_features_ = matrix->shape[is_transposed ? 0 : 1];
    // The bias of a MatMul is an addition that follows.
    const bool has_bias = node.inputs.size() > 2 || (node.kind == "MatMul" && is_biased(node));
    put(node, "linear", name_of_layer(node, 1), from,
        fmt::format(", out: {}, bias: {}", last_features_, has_bias));
  }

  bool is_biased(const OnnxNode& product) const {
    for (const OnnxNode& node : graph_.nodes) {
      if (node.kind != "Add" || node.inputs.size() != 2 || product.outputs.empty()) continue;
      for (const std::size_t side : {std::size_t{0}, std::size_t{1}})
        if (node.inputs[side] == product.outputs.front() && weight(node, 1 - side) != nullptr) return true;
    }
    return false;
  }

  void add_join(const OnnxNode& node) {
    std::string from;
    int weights = 0;
    std::string other;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (weight(node, i) != nullptr || !layer_of_.contains(node.inputs[i])) {
        ++weights;
        continue;
      }
      other = node.inputs[i];
      from += (from.empty() ? "" : ", ") + source(node.inputs[i]);
    }
    if (weights > 0) {
      if (node.kind != "Add" || weights > 1 || other.empty()) return lack(node, "with a constant");
      layer_of_[node.outputs.front()] = layer_of_[other];  // a bias
      return;
    }
    if (node.kind == "Concat" && node.integer("axis", 1) != 1) return lack(node, "along another dimension");
    const char* kind = node.kind == "Add" ? "add" : node.kind == "Mul" ? "multiply" : "concat";
    put(node, kind, name_of_layer(node, node.inputs.size()), "[" + from + "]", "");
  }

  const OnnxGraph& graph_;
  std::string out_;
  std::map<std::string, std::string> layer_of_;  // of a tensor
  std::set<std::string> names_;
  std::map<std::string, int> lacking_;
  std::int64_t last_features_ = 0;
};

std::string input_text(const OnnxGraph& graph, std::string& why) {
  if (graph.inputs.empty()) return "";
  const OnnxTensor& input = graph.inputs.front().second;
  if (input.shape.size() != 4 || !is_real(input.type)) {
    why = "its input is no image";
    return "";
  }
  if (input.shape[1] < 1 || input.shape[2] < 1 || input.shape[3] < 1) {
    why = "its input's channels, height or width are not fixed";
    return "";
  }
  return fmt::format("input: {{ channels: {}, height: {}, width: {} }}\n", input.shape[1], input.shape[2],
                     input.shape[3]);
}

// Statistics that batch norm keeps are no parameters.
bool is_trained(const OnnxGraph& graph, const std::string& name) {
  const OnnxTensor& tensor = graph.weights.at(name);
  if (!is_real(tensor.type) || tensor.shape.empty()) return false;
  return std::none_of(graph.nodes.begin(), graph.nodes.end(), [&](const OnnxNode& node) {
    return node.kind == "BatchNormalization" && node.inputs.size() > 4 &&
           (node.inputs[3] == name || node.inputs[4] == name);
  });
}

std::string parameters_text(const OnnxGraph& graph, std::int64_t& count) {
  std::string out = "parameters:\n";
  for (const std::string& name : graph.weight_order) {
    if (!is_trained(graph, name)) continue;
    const std::vector<std::int64_t>& shape = graph.weights.at(name).shape;
    if (std::any_of(shape.begin(), shape.end(),
                    [](std::int64_t size) { return size < 1 || size > 1'000'000'000; }))
      continue;
    std::int64_t elements = 1;
    for (const std::int64_t size : shape)
      elements = elements > (std::int64_t{1} << 40) ? elements : elements * size;
    count += elements;
    out += fmt::format("  - {{ name: \"{}\", shape: [{}] }}\n", plain_line(name), fmt::join(shape, ", "));
  }
  return out;
}

}  // namespace

Imported import_onnx(std::string_view bytes, const ImportOptions& options) {
  const OnnxGraph graph = read_onnx_graph(bytes, options.file);
  Imported out;
  Builder builder(graph);
  const std::string layers = builder.layers();
  std::int64_t count = 0;
  const std::string parameters = parameters_text(graph, count);
  if (count == 0) throw Error(ErrorKind::input, options.file + ": the model has no weights");
  std::string why;
  const std::string input = input_text(graph, why);
  for (const auto& [kind, times] : builder.lacking())
    why += fmt::format("{}{} ({} times)", why.empty() ? "has no layer for " : ", ", kind, times);
  const std::string title = fmt::format("# {} of ONNX, imported: {} operators, {} parameters\n",
                                        plain_line(data_name(options.file)), graph.nodes.size(), count);
  if (why.empty()) {
    out.content = title + input + fmt::format("classes: {}\n", builder.classes()) + "layers:\n" + layers;
    Diagnostics findings;
    const auto root = parse_document(out.content, options.target, findings);
    const auto model = root ? read_model(*root, findings) : nullptr;
    if (model && findings.ok()) {
      if (model->parameter_count() != count)
        out.notes.push_back(
            fmt::format("the layers have {} parameters, the file {}: constants may be among its weights",
                        model->parameter_count(), count));
      out.notes.emplace_back(
          "the optimizer is not in the file: SGD is taken; dropout and what a runtime folds away are left "
          "out");
      out.summary =
          fmt::format("{} layers, {} parameters", model->layers.size() - 1, model->parameter_count());
      return out;
    }
    why = findings.ok() ? "its layers do not make a model" : findings.errors().front().what;
  }
  out.content = title + parameters;
  out.summary = fmt::format("a list of parameters, {} in all", count);
  out.notes.push_back("as a list of parameters, which stands beside a step-time profile: " + why);
  return out;
}

}  // namespace foretrain
