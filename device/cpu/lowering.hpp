// Which layers run as one, and where gradients of outputs lie: what is decided about a model before any
// memory is taken.
#pragma once

#include <functional>
#include <vector>

#include "sim/training/model.hpp"

namespace foretrain::device::cpu {

// A relu right behind a layer that can do it as well, and that nobody else reads: by layer the relu's index,
// else -1.
std::vector<int> fused_relus(const Model& model);

// Whether a layer's output wants a gradient: parameters lie before it.
std::vector<bool> wants_gradient(const Model& model);

// What a pass over the layers from the last to the first does with the gradients of outputs.
struct GradientPlan {
  // A tensor: the output of a layer and of what is fused into it or only looks at it otherwise. By layer its
  // tensor, named by the layer that makes it.
  std::vector<int> tensor;
  // By layer and input: whether its gradient is added to what an earlier pass has left there.
  std::vector<std::vector<bool>> adds;
  // By tensor: tensors of one group share one gradient's memory, for a sum's gradient is that of its terms.
  std::vector<int> group;
  // By group: the layer whose backward pass writes it first, and the last one that reads it. -1: never.
  std::vector<int> first_writer, last_reader;
};

// same_layout(a, b): of the outputs of two layers, whether they lie alike in memory. `views`: layers that
// only look at their input otherwise.
GradientPlan plan_gradients(const Model& model, const std::vector<int>& relus, const std::vector<bool>& views,
                            const std::function<bool(int, int)>& same_layout);

}  // namespace foretrain::device::cpu
