// The gradient of an embedding's table as rows and their numbers: what one rank gives the others in place of
// a dense gradient.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/training/model.hpp"

namespace foretrain::device {

// A row for each token of the batch that is looked up in the table: for the first of equal tokens the row of
// the gradient, for the others none. Where the output shares the table, all other rows of it before them.
struct SparseTable {
  int parameter = -1;
  std::vector<int> streams;  // of tokens that are looked up in it, by layer
  bool whole = false;        // the output shares it
  std::int64_t vocabulary = 0, features = 0, length = 0;

  std::int64_t tokens(std::int64_t batch) const {
    return static_cast<std::int64_t>(streams.size()) * batch * length;
  }
  std::int64_t rows(std::int64_t batch) const { return (whole ? vocabulary : 0) + tokens(batch); }
};

// Where things lie in what a rank gives: numbers of 64 bits, -1 for no row, then the rows.
struct SparseLayout {
  std::int64_t values = 0, bytes = 0;  // where the rows begin; of all
};
inline SparseLayout sparse_layout(std::int64_t rows, std::int64_t features, std::int64_t element_bytes) {
  constexpr std::int64_t word = 16;
  const auto whole_words = [](std::int64_t bytes) { return (bytes + word - 1) / word * word; };
  const std::int64_t values = whole_words(rows * static_cast<std::int64_t>(sizeof(std::int64_t)));
  return {values, values + whole_words(rows * features * element_bytes)};
}

inline SparseTable sparse_table(const Model& model, int parameter) {
  SparseTable table;
  table.parameter = parameter;
  const Shape& shape = model.parameters[static_cast<std::size_t>(parameter)].shape;
  table.vocabulary = shape.front();
  table.features = shape.back();
  table.length = model.sequence;
  for (const Layer& layer : model.layers) {
    if (layer.parameters.empty() || layer.parameters.front() != parameter) continue;
    if (layer.kind == LayerKind::embedding) {
      table.streams.push_back(layer.embedding.stream);
    } else {
      table.whole = true;
    }
  }
  return table;
}

}  // namespace foretrain::device
