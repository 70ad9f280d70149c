// A model of ONNX, its structure alone -> a model of ours.
#pragma once

#include "sim/import/importer.hpp"

namespace foretrain {

// Convolutional networks as they are exported: Conv, BatchNormalization, Relu, pools, Flatten, Gemm, MatMul,
// Add, Mul, Concat, LayerNormalization, Gelu; what does nothing in training's sense is passed through; the
// loss is added. Where a model has other operators they are listed, and what is written is the list of its
// parameters, which stands beside a step-time profile. Weights are not read, only their shapes. Throws
// Error(input) where the bytes are no model.
Imported import_onnx(std::string_view bytes, const ImportOptions& options);

}  // namespace foretrain
