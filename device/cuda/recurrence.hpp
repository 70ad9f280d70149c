// Kernels that a recurrence needs beside the library's: its weights between our flat buffers and the
// library's weight space, and states between our layout and the library's.
#pragma once

#include "device/cuda/kernels.hpp"

namespace foretrain::device::cuda {

// Neighbouring elements: `flat` in the flat buffers of parameters and gradients, `space` in the weight space.
struct WeightSegment {
  std::int64_t flat, space, count;
};
// segments: on the device.
void gather_weights(Scalar type, const WeightSegment* segments, int count, const float* masters, void* space,
                    cudaStream_t stream);
void scatter_gradients(Scalar type, const WeightSegment* segments, int count, const void* space,
                       const GradientSink& gradients, cudaStream_t stream);

// packed: {batch, states, layers, hidden}; of the library h and c, each {layers x directions, batch, hidden}.
struct StateLayout {
  std::int64_t batch, hidden;
  int states, layers, directions;  // c is null where there is one state
};
// The forward direction; the other one becomes zero.
void states_to_library(Scalar type, const StateLayout& layout, const void* packed, void* h, void* c,
                       cudaStream_t stream);
void states_from_library(Scalar type, const StateLayout& layout, const void* h, const void* c, void* packed,
                         cudaStream_t stream);

// to {second, first, channels} = from {first, second, channels}: time before batch, and back.
void swap_leading(Scalar type, std::int64_t first, std::int64_t second, std::int64_t channels,
                  const void* from, void* to, cudaStream_t stream);

enum class Cell { rnn, lstm, gru };
// One step of one layer and direction: batch x hidden. Gates in the order i f g o and r z n.
struct CellShape {
  Cell cell;
  std::int64_t batch, hidden;
  std::int64_t out_channels, out_offset;  // of the layer's output, in which both directions stand
};
struct CellForward {
  const void *from_input, *from_state;  // products with biases, batch x gates hidden
  const void* h_before;
  const float* c_before;  // lstm
  void* gates;            // kept: after their functions; not of rnn
  void* state_part;       // kept, gru: from_state of the last gate
  void* h;
  float* c;
  void* out;
};
void cell_forward(Scalar type, const CellShape& shape, const CellForward& step, cudaStream_t stream);
struct CellBackward {
  const void* dout;  // of the layer's output
  const void* dh;    // from the step after this one, and of the last state
  float* dc;         // lstm: read, and written for the step before
  const void *gates, *state_part, *h_before, *h;
  const float *c_before, *c;
  void *d_from_input, *d_from_state;  // of the products; the same buffer but for gru
  void* dh_direct;                    // gru: the part that does not pass the product, for the step before
};
void cell_backward(Scalar type, const CellShape& shape, const CellBackward& step, cudaStream_t stream);

}  // namespace foretrain::device::cuda
