#include "device/cuda/recurrence.hpp"

#include "device/cuda/check.hpp"
#include "device/cuda/items.cuh"
#include "device/cuda/vector.cuh"

namespace foretrain::device::cuda {
namespace {

constexpr unsigned blocks_a_segment = 64;

template <typename T>
__global__ void gather_kernel(const WeightSegment* segments, const float* masters, T* space) {
  const WeightSegment segment = segments[blockIdx.y];
  for (int64_t i = first_item(); i < segment.count; i += item_step())
    from_float(masters[segment.flat + i], space[segment.space + i]);
}

template <typename T>
__global__ void scatter_kernel(const WeightSegment* segments, const T* space, GradientSink gradients) {
  const WeightSegment segment = segments[blockIdx.y];
  for (int64_t i = first_item(); i < segment.count; i += item_step())
    store_gradient(gradients, segment.flat + i, to_float(space[segment.space + i]));
}

template <typename T, bool to_library>
__global__ void states_kernel(StateLayout layout, T* packed, T* h, T* c) {
  const int64_t items = layout.batch * layout.states * layout.layers * layout.directions * layout.hidden;
  for (int64_t item = first_item(); item < items; item += item_step()) {
    const int64_t i = item % layout.hidden;
    int64_t rest = item / layout.hidden;
    const int64_t sample = rest % layout.batch;
    rest /= layout.batch;
    const int64_t direction = rest % layout.directions;
    rest /= layout.directions;
    const int64_t layer = rest % layout.layers, state = rest / layout.layers;
    T& outside = packed[((sample * layout.states + state) * layout.layers + layer) * layout.hidden + i];
    T& inside =
        (state == 0
             ? h
             : c)[((layer * layout.directions + direction) * layout.batch + sample) * layout.hidden + i];
    if (to_library) {
      if (direction == 0) {
        inside = outside;
      } else {
        from_float(0, inside);
      }
    } else if (direction == 0) {
      outside = inside;
    }
  }
}

template <bool to_library>
void move_states(Scalar type, const StateLayout& layout, void* packed, void* h, void* c,
                 cudaStream_t stream) {
  const int64_t items = layout.batch * layout.states * layout.layers * layout.directions * layout.hidden;
  with_type(type, [&](auto element) {
    using T = decltype(element);
    states_kernel<T, to_library><<<blocks_for(items), item_threads, 0, stream>>>(
        layout, static_cast<T*>(packed), static_cast<T*>(h), static_cast<T*>(c));
  });
  FORETRAIN_LAUNCHED();
}

template <typename T>
__global__ void swap_kernel(int64_t first, int64_t second, int64_t channels, const T* from, T* to) {
  for (int64_t item = first_item(); item < first * second * channels; item += item_step()) {
    const int64_t channel = item % channels, row = item / channels;
    to[(row % second * first + row / second) * channels + channel] = from[item];
  }
}

__device__ float logistic(float x) {
  return 1 / (1 + expf(-x));
}

template <typename T>
__device__ void store(void* to, int64_t index, float value) {
  from_float(value, static_cast<T*>(to)[index]);
}
template <typename T>
__device__ float load(const void* from, int64_t index) {
  return to_float(static_cast<const T*>(from)[index]);
}

template <typename T>
__global__ void cell_forward_kernel(CellShape shape, CellForward s) {
  const int64_t hidden = shape.hidden;
  for (int64_t item = first_item(); item < shape.batch * hidden; item += item_step()) {
    const int64_t sample = item / hidden, i = item % hidden;
    const int gates = shape.cell == Cell::rnn ? 1 : shape.cell == Cell::lstm ? 4 : 3;
    const auto place = [=](int gate) { return (sample * gates + gate) * hidden + i; };
    const auto input = [&](int gate) { return load<T>(s.from_input, place(gate)); };
    const auto state = [&](int gate) { return load<T>(s.from_state, place(gate)); };
    float h = 0;
    if (shape.cell == Cell::rnn) {
      h = tanhf(input(0) + state(0));
    } else if (shape.cell == Cell::lstm) {
      const float in = logistic(input(0) + state(0)), forget = logistic(input(1) + state(1));
      const float made = tanhf(input(2) + state(2)), out = logistic(input(3) + state(3));
      const float c = forget * s.c_before[item] + in * made;
      s.c[item] = c;
      h = out * tanhf(c);
      store<T>(s.gates, place(0), in);
      store<T>(s.gates, place(1), forget);
      store<T>(s.gates, place(2), made);
      store<T>(s.gates, place(3), out);
    } else {
      const float reset = logistic(input(0) + state(0)), keep = logistic(input(1) + state(1));
      const float part = state(2), made = tanhf(input(2) + reset * part);
      h = (1 - keep) * made + keep * load<T>(s.h_before, item);
      store<T>(s.gates, place(0), reset);
      store<T>(s.gates, place(1), keep);
      store<T>(s.gates, place(2), made);
      store<T>(s.state_part, item, part);
    }
    store<T>(s.h, item, h);
    store<T>(s.out, sample * shape.out_channels + shape.out_offset + i, h);
  }
}

template <typename T>
__global__ void cell_backward_kernel(CellShape shape, CellBackward s) {
  const int64_t hidden = shape.hidden;
  for (int64_t item = first_item(); item < shape.batch * hidden; item += item_step()) {
    const int64_t sample = item / hidden, i = item % hidden;
    const int gates = shape.cell == Cell::rnn ? 1 : shape.cell == Cell::lstm ? 4 : 3;
    const auto place = [=](int gate) { return (sample * gates + gate) * hidden + i; };
    const auto gate = [&](int which) { return load<T>(s.gates, place(which)); };
    const float dh =
        load<T>(s.dout, sample * shape.out_channels + shape.out_offset + i) + load<T>(s.dh, item);
    if (shape.cell == Cell::rnn) {
      const float h = load<T>(s.h, item);
      store<T>(s.d_from_input, item, dh * (1 - h * h));
    } else if (shape.cell == Cell::lstm) {
      const float in = gate(0), forget = gate(1), made = gate(2), out = gate(3);
      const float t = tanhf(s.c[item]), dc = s.dc[item] + dh * out * (1 - t * t);
      store<T>(s.d_from_input, place(0), dc * made * in * (1 - in));
      store<T>(s.d_from_input, place(1), dc * s.c_before[item] * forget * (1 - forget));
      store<T>(s.d_from_input, place(2), dc * in * (1 - made * made));
      store<T>(s.d_from_input, place(3), dh * t * out * (1 - out));
      s.dc[item] = dc * forget;
    } else {
      const float reset = gate(0), keep = gate(1), made = gate(2), part = load<T>(s.state_part, item);
      const float d_made = dh * (1 - keep) * (1 - made * made);
      const float d_keep = dh * (load<T>(s.h_before, item) - made) * keep * (1 - keep);
      const float d_reset = d_made * part * reset * (1 - reset);
      store<T>(s.d_from_input, place(0), d_reset);
      store<T>(s.d_from_input, place(1), d_keep);
      store<T>(s.d_from_input, place(2), d_made);
      store<T>(s.d_from_state, place(0), d_reset);
      store<T>(s.d_from_state, place(1), d_keep);
      store<T>(s.d_from_state, place(2), d_made * reset);
      store<T>(s.dh_direct, item, dh * keep);
    }
  }
}

}  // namespace

void swap_leading(Scalar type, std::int64_t first, std::int64_t second, std::int64_t channels,
                  const void* from, void* to, cudaStream_t stream) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    swap_kernel<T><<<blocks_for(first * second * channels), item_threads, 0, stream>>>(
        first, second, channels, static_cast<const T*>(from), static_cast<T*>(to));
  });
  FORETRAIN_LAUNCHED();
}

void cell_forward(Scalar type, const CellShape& shape, const CellForward& step, cudaStream_t stream) {
  with_type(type, [&](auto element) {
    cell_forward_kernel<decltype(element)>
        <<<blocks_for(shape.batch * shape.hidden), item_threads, 0, stream>>>(shape, step);
  });
  FORETRAIN_LAUNCHED();
}

void cell_backward(Scalar type, const CellShape& shape, const CellBackward& step, cudaStream_t stream) {
  with_type(type, [&](auto element) {
    cell_backward_kernel<decltype(element)>
        <<<blocks_for(shape.batch * shape.hidden), item_threads, 0, stream>>>(shape, step);
  });
  FORETRAIN_LAUNCHED();
}

void gather_weights(Scalar type, const WeightSegment* segments, int count, const float* masters, void* space,
                    cudaStream_t stream) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    gather_kernel<T><<<dim3(blocks_a_segment, static_cast<unsigned>(count)), item_threads, 0, stream>>>(
        segments, masters, static_cast<T*>(space));
  });
  FORETRAIN_LAUNCHED();
}

void scatter_gradients(Scalar type, const WeightSegment* segments, int count, const void* space,
                       const GradientSink& gradients, cudaStream_t stream) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    scatter_kernel<T><<<dim3(blocks_a_segment, static_cast<unsigned>(count)), item_threads, 0, stream>>>(
        segments, static_cast<const T*>(space), gradients);
  });
  FORETRAIN_LAUNCHED();
}

void states_to_library(Scalar type, const StateLayout& layout, const void* packed, void* h, void* c,
                       cudaStream_t stream) {
  move_states<true>(type, layout, const_cast<void*>(packed), h, c, stream);
}

void states_from_library(Scalar type, const StateLayout& layout, const void* h, const void* c, void* packed,
                         cudaStream_t stream) {
  move_states<false>(type, layout, packed, const_cast<void*>(h), const_cast<void*>(c), stream);
}

}  // namespace foretrain::device::cuda
