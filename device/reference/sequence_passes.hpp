// Passes of the layers of sequences, with what each keeps from its forward to its backward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "device/reference/recurrence.hpp"
#include "device/reference/sequence_layers.hpp"

namespace foretrain::device::reference {

// What the passes of one program read and write, by layer or parameter.
struct PassData {
  const std::vector<Tensor>& weights;
  std::vector<Tensor>& outputs;
  std::vector<Tensor>& gradients;           // of the outputs
  const std::vector<std::int32_t>& tokens;  // batch x streams x sequence
  std::uint64_t draw = 0;                   // names the masks of dropout: one of forward and backward pass
};

class SequencePasses {
 public:
  SequencePasses(const Model& model, std::int64_t batch, std::uint64_t seed);
  static bool runs(LayerKind kind);

  void forward(int layer, const PassData& data);
  // Adds to the gradients of the layer's inputs.
  void backward_data(int layer, const PassData& data);
  // The gradients of the layer's parameters, in their order.
  std::vector<Tensor> backward_weights(int layer, const PassData& data);

 private:
  struct Memory {
    RowStatistics statistics;
    AttentionMemory attention;
    RecurrenceMemory recurrence;
    RecurrenceGradients gradients;  // made by backward_weights
  };
  const Layer& layer_at(int index) const { return model_.layers[static_cast<std::size_t>(index)]; }
  RowShape rows_of(int index) const { return row_shape(batch_, layer_at(index).output); }
  DropoutMask mask(int index, double probability, const PassData& data) const;
  std::vector<std::int32_t> stream(const Layer& layer, const PassData& data) const;
  RecurrencePlan plan_of(const Layer& layer) const;

  const Model& model_;
  std::int64_t batch_;
  std::uint64_t seed_;
  std::vector<Memory> memory_;
};

}  // namespace foretrain::device::reference
