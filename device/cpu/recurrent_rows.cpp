#include "device/cpu/recurrent_rows.hpp"

#include "device/cpu/row_loops.hpp"

namespace foretrain::device::cpu {
namespace {

template <typename Float>
Columns<Float> state_columns(const RecurrentSizes& sizes, Float* packed, int layer, int state) {
  const std::int64_t each = sizes.stack.layers * sizes.hidden();
  return {packed, sizes.states() * each, state * each + layer * sizes.hidden()};
}

}  // namespace

RecurrentSizes::RecurrentSizes(const OperatorPlan& plan)
    : kind(plan.layer.kind), stack(plan.layer.recurrence), batch(plan.batch) {
  const Shape& in = plan.model.layers[static_cast<std::size_t>(plan.layer.inputs[0])].output;
  steps = in[0];
  width = in[1];
}

void swap_leading(float* to, const float* from, std::int64_t first, std::int64_t second,
                  std::int64_t features, bool adds) {
  parallel_rows(second, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      for (std::int64_t f = 0; f < first; ++f) {
        const float* in = from + (f * second + s) * features;
        float* out = to + (s * first + f) * features;
        for (std::int64_t i = 0; i < features; ++i) out[i] = adds ? out[i] + in[i] : in[i];
      }
    }
  });
}

void take_state(const RecurrentSizes& sizes, float* to, const float* packed, int layer, int state) {
  copy_columns({to, sizes.hidden(), 0}, state_columns(sizes, packed, layer, state), sizes.batch,
               sizes.hidden(), false);
}

void give_state(const RecurrentSizes& sizes, float* packed, const float* from, int layer, int state,
                bool adds) {
  copy_columns(state_columns(sizes, packed, layer, state), {from, sizes.hidden(), 0}, sizes.batch,
               sizes.hidden(), adds);
}

void drop_between(const RecurrentSizes& sizes, const DropoutMask& mask, int layer, float* to,
                  const float* from) {
  const std::int64_t width = sizes.result_width();
  parallel_rows(sizes.steps * sizes.batch, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t step = row / sizes.batch, n = row % sizes.batch;
      const std::int64_t number = layer * sizes.result_floats() + (n * sizes.steps + step) * width;
      for (std::int64_t i = 0; i < width; ++i)
        to[row * width + i] = from[row * width + i] * static_cast<float>(mask.at(number + i));
    }
  });
}

}  // namespace foretrain::device::cpu
