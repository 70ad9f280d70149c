#include "sim/import/onnx_graph.hpp"

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/base/wire.hpp"

namespace foretrain {
namespace {

constexpr std::size_t most_dimensions = 16, most_nodes = 1'000'000;

void read_integers(const WireReader& field, std::vector<std::int64_t>& into) {
  constexpr std::size_t most = 4096;
  if (field.type() == WireReader::Type::varint && into.size() < most) into.push_back(field.integer());
  std::string_view packed = field.bytes();
  std::uint64_t value = 0;
  while (into.size() < most && next_packed(packed, value)) into.push_back(static_cast<std::int64_t>(value));
}

OnnxNode read_node(std::string_view message) {
  OnnxNode node;
  for (WireReader field(message); field.next();) {
    if (field.field() == 1) node.inputs.emplace_back(field.bytes());
    if (field.field() == 2) node.outputs.emplace_back(field.bytes());
    if (field.field() == 3) node.name = field.bytes();
    if (field.field() == 4) node.kind = field.bytes();
    if (field.field() != 5) continue;
    std::string name;
    std::vector<std::int64_t> integers;
    for (WireReader attribute(field.bytes()); attribute.next();) {
      if (attribute.field() == 1) name = attribute.bytes();
      if (attribute.field() == 2) node.reals[name] = attribute.real();
      if (attribute.field() == 3 || attribute.field() == 8) read_integers(attribute, integers);
    }
    node.integers[name] = std::move(integers);
  }
  return node;
}

OnnxTensor read_weight(std::string_view message, std::string& name) {
  OnnxTensor tensor;
  for (WireReader field(message); field.next();) {
    if (field.field() == 1 && tensor.shape.size() < most_dimensions) read_integers(field, tensor.shape);
    if (field.field() == 2) tensor.type = static_cast<int>(field.varint() & 0xFF);
    if (field.field() == 8) name = field.bytes();
  }
  return tensor;
}

// ValueInfoProto{name, type{tensor_type{elem_type, shape{dim{value}}}}}
OnnxTensor read_value(std::string_view message, std::string& name) {
  OnnxTensor tensor;
  for (WireReader value(message); value.next();) {
    if (value.field() == 1) name = value.bytes();
    if (value.field() != 2) continue;
    for (WireReader type(value.bytes()); type.next();) {
      if (type.field() != 1) continue;
      for (WireReader part(type.bytes()); part.next();) {
        if (part.field() == 1) tensor.type = static_cast<int>(part.varint() & 0xFF);
        if (part.field() != 2) continue;
        for (WireReader shape(part.bytes()); shape.next();) {
          if (shape.field() != 1 || tensor.shape.size() >= most_dimensions) continue;
          std::int64_t size = -1;
          for (WireReader dimension(shape.bytes()); dimension.next();)
            if (dimension.field() == 1) size = dimension.integer();
          tensor.shape.push_back(size);
        }
      }
    }
  }
  return tensor;
}

}  // namespace

std::int64_t OnnxNode::integer(const std::string& attribute, std::int64_t otherwise) const {
  const auto found = integers.find(attribute);
  return found == integers.end() || found->second.empty() ? otherwise : found->second.front();
}

OnnxGraph read_onnx_graph(std::string_view bytes, const std::string& file) {
  std::string_view graph_bytes;
  WireReader model(bytes);
  while (model.next())
    if (model.field() == 7) graph_bytes = model.bytes();
  if (!model.ok() || graph_bytes.empty())
    throw Error(ErrorKind::input, file + ": is no ONNX model: it has no graph, or is cut");
  OnnxGraph graph;
  std::vector<std::pair<std::string, OnnxTensor>> inputs;
  WireReader part(graph_bytes);
  while (part.next()) {
    std::string name;
    if (part.field() == 1 && graph.nodes.size() < most_nodes) graph.nodes.push_back(read_node(part.bytes()));
    if (part.field() == 5) {
      OnnxTensor tensor = read_weight(part.bytes(), name);
      if (graph.weights.emplace(name, std::move(tensor)).second) graph.weight_order.push_back(name);
    }
    if (part.field() == 11) {
      OnnxTensor tensor = read_value(part.bytes(), name);
      inputs.emplace_back(name, std::move(tensor));
    }
  }
  if (!part.ok()) throw Error(ErrorKind::input, file + ": the model's graph is cut or damaged");
  for (auto& input : inputs)
    if (!graph.weights.contains(input.first)) graph.inputs.push_back(std::move(input));
  if (graph.nodes.empty()) throw Error(ErrorKind::input, file + ": the model has no operators");
  return graph;
}

}  // namespace foretrain
