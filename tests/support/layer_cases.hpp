// Models of images that hold every kind of layer and every fusion.
#pragma once

#include <functional>
#include <vector>

#include "sim/training/model.hpp"

namespace foretrain {
class ModelBuilder;
}

namespace foretrain::test {

// What `body` makes of the input, classified into 5 classes; trained by sgd with momentum and decay.
Model built(const char* name, Shape input, const std::function<int(ModelBuilder&)>& body);
// A square window.
Window window(int kernel, int stride = 1, int padding = 0, int groups = 1, int dilation = 1);

// Each kind of layer between layers with weights, so that gradients pass through it. `direct`: every ReLU and
// max_pool decides on values that all precisions compute alike, since those before it are exact: then
// gradients are as close as the arithmetic. Elsewhere an element near zero may fall on the other side; a
// share p of such elements moves a gradient by about sqrt(p) in norm.
struct LayerCase {
  Model model;
  bool direct = true;
};
std::vector<LayerCase> layer_cases();

}  // namespace foretrain::test
