// Models of sequences that hold every kind of layer: each between an embedding and a loss over 48 words, in
// sequences of 24; and small whole models.
#pragma once

#include <vector>

#include "sim/training/model.hpp"

namespace foretrain::test {

std::vector<Model> sequence_cases();

}  // namespace foretrain::test
