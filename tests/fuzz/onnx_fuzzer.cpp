#include "tests/fuzz/import.hpp"

FORETRAIN_FUZZ(onnx) {
  foretrain::fuzz::import_both_ways("onnx", text, "model.yaml");
}
