// Tables of the keys of a model file: the file itself, its optimizer, blocks and parameters, and each kind of
// layer.
#pragma once

#include <vector>

#include "sim/input/schema.hpp"

namespace foretrain {

const Schema& model_schema();
const Schema& model_input_schema();     // under `input:`
const Schema& optimizer_schema();       // under `optimizer:` of a model or a scenario
const Schema& block_schema();           // of each block under `blocks:`
const Schema& parameter_item_schema();  // of each item under `parameters:`
// One a kind of layer, then sequence, repeat and residual; named as in the file.
const std::vector<const Schema*>& layer_schemas();
const Schema* find_layer_schema(std::string_view type);

}  // namespace foretrain
