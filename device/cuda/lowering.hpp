// The plan of operators and of memory, which the simulator's memory estimate shares, under this backend's
// names.
#pragma once

#include "sim/training/lowering.hpp"

namespace foretrain::device::cuda {

using foretrain::lowering::GradientSum;
using foretrain::lowering::lower;
using foretrain::lowering::Lowered;
using foretrain::lowering::nowhere;
using foretrain::lowering::Operator;
using foretrain::lowering::Tensor;

}  // namespace foretrain::device::cuda
