// What stands in an ONNX file, as far as its structure needs (onnx.proto).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

struct OnnxNode {
  std::string kind, name;  // "Conv"
  std::vector<std::string> inputs, outputs;
  std::map<std::string, std::vector<std::int64_t>> integers;  // attributes
  std::map<std::string, double> reals;

  std::int64_t integer(const std::string& attribute, std::int64_t otherwise) const;
};

struct OnnxTensor {
  std::vector<std::int64_t> shape;  // -1: not fixed
  int type = 0;                     // 1 float, 7 int64, 10 float16, 11 double, 16 bfloat16
};

struct OnnxGraph {
  std::vector<OnnxNode> nodes;
  std::map<std::string, OnnxTensor> weights;
  std::vector<std::string> weight_order;
  std::vector<std::pair<std::string, OnnxTensor>> inputs;  // without weights
};

// Throws Error(input) where the bytes are no model; `file` names it.
OnnxGraph read_onnx_graph(std::string_view bytes, const std::string& file);

}  // namespace foretrain
