// A model as a person describes it: blocks with parameters, sequences, repeats, residual branches. Expanded
// to a Model layer by layer; every part carries its place in the file, so that an error in a block used
// twenty times is reported once and where it stands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/training/model.hpp"

namespace foretrain {

// An integer expression (sim/training/expression.hpp), or several: a shape, or height and width.
struct Argument {
  std::string key;
  std::vector<std::string> values;
  SourceLocation where;
};

struct NamedShape {
  std::string name;
  Argument shape;
};

// One entry of a list of layers. `type` is the name of a LayerKind, "sequence", "repeat", "residual" or the
// name of a block.
//
// Names: a layer without one is numbered in a sequence ("features.3", as PyTorch does) and called by its type
// elsewhere ("relu", "relu_2"). A sequence, a named repeat ("layer1.0", "layer1.1") and a block begin a new
// level of names; a residual and a repeat without a name do not.
struct LayerDescription {
  std::string type;
  SourceLocation where;
  std::string name;
  bool is_unreadable = false;  // something is wrong with it and reported: stands in place, is not checked
  // Names of the layers read, searched from the innermost level outwards; "input" is what enters the block.
  // None: the layer before. `add`, `multiply` and `concat` with a single name join it with the layer before;
  // attention and recurrences read several.
  std::vector<std::string> from;
  std::optional<Argument> when;  // 0: the layer is left out
  std::vector<Argument>
      arguments;              // out, kernel, stride, padding, dilation, groups, times; a block's parameters
  std::string index;          // repeat: name of the counter (from 0) in expressions, empty for none
  bool bias = true;           // conv2d, linear, layer_norm
  bool count_padding = true;  // avg_pool
  std::optional<double> epsilon;            // of a norm
  double momentum = 0.1;                    // batch_norm
  std::string tied;                         // linear, embedding: the layer whose weight it uses
  bool approximate = false;                 // gelu
  double probability = 0;                   // dropout; of attention and recurrences: within
  bool causal = false;                      // attention
  double rotary_base = 0;                   // attention
  bool sinusoidal = false, scaled = false;  // embedding
  bool bidirectional = false, unrolled = false, gives_state = false;  // recurrences
  Argument output;                                                    // measured
  std::vector<NamedShape> parameters;                                 // measured
  MeasuredTimes times;                                                // measured
  std::vector<LayerDescription> layers;                               // sequence, repeat; residual: its body
  std::vector<LayerDescription> shortcut;                             // residual; none: the input itself

  const Argument* find(const std::string& key) const;
};

struct BlockDescription {
  std::string name;
  SourceLocation where;
  struct BlockParameter {
    std::string name;
    std::optional<Argument> standard;  // its value where the use gives none
    SourceLocation where;
  };
  std::vector<BlockParameter> parameters;
  std::vector<LayerDescription> layers;
};

struct ModelDescription {
  std::string name, title, unit = "images";
  SourceLocation where;
  Shape input;
  std::int64_t classes = 0;
  std::int64_t tokens = 0, sequence = 0;  // of a model that reads tokens
  Optimizer optimizer;
  std::vector<Argument> constants;  // names for expressions, each may use those before it; `classes` is one
  std::vector<BlockDescription> blocks;
  std::vector<LayerDescription> layers;
};

// The model. Throws Error with every finding; expansion is bounded in layers, steps and nesting.
Model expand(const ModelDescription& description);

}  // namespace foretrain
