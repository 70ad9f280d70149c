#include "sim/input/document.hpp"
#include "sim/input/model_reader.hpp"
#include "tests/fuzz/fuzz.hpp"

FORETRAIN_FUZZ(model) {
  using namespace foretrain;
  Diagnostics diagnostics;
  if (const auto root = parse_document(text, "model.yaml", diagnostics)) read_model(*root, diagnostics);
}
