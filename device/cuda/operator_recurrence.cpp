// rnn, lstm and gru by cuDNN: one call for the whole stack over the whole sequence. Its weights lie once more
// in the library's own layout, written after each update; its gradients are taken from there.
#include <algorithm>

#include "device/cuda/operators.hpp"
#include "device/cuda/recurrence.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::cuda {
namespace {

// A descriptor of cuDNN's older interface.
template <typename D, cudnnStatus_t (*create)(D*), cudnnStatus_t (*destroy)(D)>
class Owned {
 public:
  Owned() { FORETRAIN_CUDNN(create(&descriptor_)); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { destroy(descriptor_); }
  operator D() const { return descriptor_; }

 private:
  D descriptor_ = nullptr;
};
using RnnDescriptor = Owned<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor>;
using DataDescriptor =
    Owned<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor>;
using TensorDescriptor =
    Owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using DropoutDescriptor =
    Owned<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor>;

cudnnRNNMode_t mode_of(LayerKind kind) {
  return kind == LayerKind::lstm ? CUDNN_LSTM : kind == LayerKind::gru ? CUDNN_GRU : CUDNN_RNN_TANH;
}

class RecurrenceOperator : public Runnable {
 public:
  RecurrenceOperator(const Build& build, const Operator& op)
      : build_(build),
        op_(op),
        layer_(build.layer(op)),
        stack_(layer_.recurrence),
        batch_(build.options.batch),
        length_(build.tensor(op.inputs[0]).pixels()),
        width_(build.tensor(op.inputs[0]).channels),
        states_{batch_, stack_.hidden, states_of(layer_.kind), stack_.layers, stack_.directions()} {
    describe();
    allocate();
    list_segments();
    refresh();
  }

  // The library wants the gradients of the data before those of the weights: one pass has both.
  bool has(Pass pass) const override { return pass != Pass::backward_data; }
  std::int64_t workspace() const override { return library_workspace_ + (op_.dx == nowhere ? x_bytes() : 0); }
  void bind(void* workspace) override { workspace_ = static_cast<std::byte*>(workspace); }
  int refresh_launches() const override { return 1; }
  void refresh() override {
    gather_weights(build_.type, segments_.as<WeightSegment>(), segment_count_,
                   static_cast<const float*>(build_.parameters.masters().data), weights_->data(), stream());
  }
  void refresh_own() override {}
  void accumulate(bool adds) override { adds_ = adds; }
  std::span<std::byte> random_state() override {
    return {dropout_states_.data(), static_cast<std::size_t>(dropout_states_.bytes())};
  }
  void run(Pass pass) override { pass == Pass::forward ? forward() : backward(); }

 private:
  cudaStream_t stream() const { return build_.context.compute; }
  bool begins_with_state() const { return op_.inputs.size() == 2; }
  std::int64_t x_bytes() const { return batch_ * length_ * width_ * bytes_of(build_.type); }
  std::int64_t y_bytes() const {
    return batch_ * length_ * stack_.hidden * stack_.directions() * bytes_of(build_.type);
  }

  void describe() {
    const Context& context = build_.context;
    const bool half = build_.type == Scalar::bf16;
    const cudnnDataType_t type = half ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const cudnnMathType_t math = half          ? CUDNN_TENSOR_OP_MATH
                                 : build_.tf32 ? CUDNN_DEFAULT_MATH
                                               : CUDNN_FMA_MATH;
    const auto drops = static_cast<float>(stack_.dropout);
    if (drops > 0) {
      std::size_t bytes = 0;
      FORETRAIN_CUDNN(cudnnDropoutGetStatesSize(context.cudnn, &bytes));
      dropout_states_ = DeviceMemory(build_.context.account, static_cast<std::int64_t>(bytes));
    }
    FORETRAIN_CUDNN(cudnnSetDropoutDescriptor(
        dropout_, context.cudnn, drops, dropout_states_.data(),
        static_cast<std::size_t>(dropout_states_.bytes()),
        build_.options.seed * 1'000'003 + static_cast<unsigned long long>(op_.layer)));
    const auto hidden = static_cast<std::int32_t>(stack_.hidden);
    FORETRAIN_CUDNN(cudnnSetRNNDescriptor_v8(
        rnn_, CUDNN_RNN_ALGO_STANDARD, mode_of(layer_.kind), CUDNN_RNN_DOUBLE_BIAS,
        stack_.bidirectional ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type,
        CUDNN_DATA_FLOAT, math, static_cast<std::int32_t>(width_), hidden, hidden, stack_.layers, dropout_,
        CUDNN_RNN_PADDED_IO_ENABLED));
    const auto length = static_cast<int>(length_), batch = static_cast<int>(batch_);
    const std::vector<int> lengths(static_cast<std::size_t>(batch_), length);
    FORETRAIN_CUDNN(cudnnSetRNNDataDescriptor(x_, type, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, length,
                                              batch, static_cast<int>(width_), lengths.data(), nullptr));
    FORETRAIN_CUDNN(cudnnSetRNNDataDescriptor(y_, type, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, length,
                                              batch, hidden * stack_.directions(), lengths.data(), nullptr));
    const int dims[3] = {stack_.layers * stack_.directions(), batch, hidden};
    const int strides[3] = {batch * hidden, hidden, 1};
    FORETRAIN_CUDNN(cudnnSetTensorNdDescriptor(state_, type, 3, dims, strides));
    lengths_ = DeviceMemory(build_.context.account, batch_ * 4);
    FORETRAIN_CUDA(cudaMemcpy(lengths_.data(), lengths.data(), lengths.size() * 4, cudaMemcpyHostToDevice));
  }

  void allocate() {
    Context& context = build_.context;
    std::size_t weights = 0, workspace = 0, reserve = 0;
    FORETRAIN_CUDNN(cudnnGetRNNWeightSpaceSize(context.cudnn, rnn_, &weights));
    FORETRAIN_CUDNN(
        cudnnGetRNNTempSpaceSizes(context.cudnn, rnn_, CUDNN_FWD_MODE_TRAINING, x_, &workspace, &reserve));
    const auto shared = [&](const char* what, std::int64_t bytes) {
      auto memory = build_.in_step[{op_.layer, what}].of(context.account, bytes);
      FORETRAIN_CUDA(cudaMemset(memory->data(), 0, static_cast<std::size_t>(bytes)));
      return memory;
    };
    weight_gradients_ = shared("weight gradients", static_cast<std::int64_t>(weights));
    weight_bytes_ = static_cast<std::int64_t>(weights);  // of one layout at every length
    weights_ = shared("weights", weight_bytes_);
    reserve_ = shared("reserve", static_cast<std::int64_t>(reserve));
    library_workspace_ = aligned(static_cast<std::int64_t>(workspace));
    // First and last states and their gradients, h and c each.
    state_bytes_ = aligned(static_cast<std::int64_t>(stack_.layers) * stack_.directions() * batch_ *
                           stack_.hidden * bytes_of(build_.type));
    library_states_ = shared("states", 8 * state_bytes_);
    if (stack_.gives_state) {
      own_y_ = shared("result", y_bytes());
      no_gradient_ = shared("no gradient", y_bytes());
    }
    FORETRAIN_CUDA(cudaDeviceSynchronize());  // zeros are not written in our stream
  }

  // Where each gate's matrix and bias lie in the weight space; gates that follow each other are one segment.
  void list_segments() {
    std::vector<WeightSegment> segments;
    const auto add = [&](std::int64_t flat, const void* address, std::int64_t count) {
      if (address == nullptr) throw Error(ErrorKind::failure, "cuDNN gives no place for a weight");
      const std::int64_t space =
          (static_cast<const std::byte*>(address) - weights_->data()) / bytes_of(build_.type);
      if (!segments.empty()) {
        WeightSegment& before = segments.back();
        if (before.flat + before.count == flat && before.space + before.count == space) {
          before.count += count;
          return;
        }
      }
      segments.push_back({flat, space, count});
    };
    const int gates = gates_of(layer_.kind);
    TensorDescriptor matrix, bias;
    for (int pseudo = 0; pseudo < stack_.layers * stack_.directions(); ++pseudo) {
      const auto parameter = [&](int which) {
        return layer_.parameters[static_cast<std::size_t>(4 * pseudo + which)];
      };
      for (const bool recurrent : {false, true}) {
        const int weight = parameter(recurrent ? 1 : 0), shift = parameter(recurrent ? 3 : 2);
        const Parameter& shape = build_.model.parameters[static_cast<std::size_t>(weight)];
        const std::int64_t of_gate = shape.elements / gates;
        std::vector<void*> biases;
        for (int gate = 0; gate < gates; ++gate) {
          void *matrix_at = nullptr, *bias_at = nullptr;
          FORETRAIN_CUDNN(cudnnGetRNNWeightParams(
              build_.context.cudnn, rnn_, pseudo, static_cast<std::size_t>(weight_bytes_), weights_->data(),
              (recurrent ? gates : 0) + gate, matrix, &matrix_at, bias, &bias_at));
          add(build_.parameters.offset(weight) + gate * of_gate, matrix_at, of_gate);
          biases.push_back(bias_at);
        }
        for (int gate = 0; gate < gates; ++gate) {
          add(build_.parameters.offset(shift) + gate * stack_.hidden, biases[static_cast<std::size_t>(gate)],
              stack_.hidden);
        }
      }
    }
    segment_count_ = static_cast<int>(segments.size());
    const auto bytes = segments.size() * sizeof(WeightSegment);
    segments_ = DeviceMemory(build_.context.account, static_cast<std::int64_t>(bytes));
    FORETRAIN_CUDA(cudaMemcpy(segments_.data(), segments.data(), bytes, cudaMemcpyHostToDevice));
    FORETRAIN_CUDA(cudaDeviceSynchronize());
  }

  // first: what it begins with; last: what it ends with.
  enum State { first_h, first_c, last_h, last_c, first_dh, first_dc, last_dh, last_dc };
  std::byte* state(State which) const { return library_states_->data() + which * state_bytes_; }
  std::byte* state_if(bool given, State which) const {
    const bool is_cell = which % 2 == 1;
    return given && (!is_cell || states_.states == 2) ? state(which) : nullptr;
  }
  std::byte* y() const { return stack_.gives_state ? own_y_->data() : build_.at(op_.y); }

  void forward() {
    const Build& b = build_;
    if (begins_with_state()) {
      states_to_library(b.type, states_, b.at(op_.inputs_at[1]), state(first_h), state(first_c), stream());
    }
    const bool ends = stack_.gives_state;
    FORETRAIN_CUDNN(cudnnRNNForward(b.context.cudnn, rnn_, CUDNN_FWD_MODE_TRAINING,
                                    lengths_.as<std::int32_t>(), x_, b.at(op_.x), y_, y(), state_,
                                    state_if(begins_with_state(), first_h), state_if(ends, last_h), state_,
                                    state_if(begins_with_state(), first_c), state_if(ends, last_c),
                                    static_cast<std::size_t>(weight_bytes_), weights_->data(),
                                    static_cast<std::size_t>(library_workspace_), workspace_,
                                    static_cast<std::size_t>(reserve_->bytes()), reserve_->data()));
    if (ends) states_from_library(b.type, states_, state(last_h), state(last_c), b.at(op_.y), stream());
  }

  void backward() {
    const Build& b = build_;
    run_sums(b, op_);
    const bool ends = stack_.gives_state, begins = begins_with_state();
    if (ends) states_to_library(b.type, states_, b.at(op_.dy), state(last_dh), state(last_dc), stream());
    const bool wants_first = begins && op_.inputs_dx[1] != nowhere;
    void* dx = op_.dx != nowhere ? b.at(op_.dx) : workspace_ + library_workspace_;
    const auto reserve = static_cast<std::size_t>(reserve_->bytes());
    const auto weight_bytes = static_cast<std::size_t>(weight_bytes_);
    const auto library_workspace = static_cast<std::size_t>(library_workspace_);
    FORETRAIN_CUDNN(cudnnRNNBackwardData_v8(
        b.context.cudnn, rnn_, lengths_.as<std::int32_t>(), y_, y(),
        ends ? no_gradient_->data() : b.at(op_.dy), x_, dx, state_, state_if(begins, first_h),
        state_if(ends, last_dh), state_if(wants_first, first_dh), state_, state_if(begins, first_c),
        state_if(ends, last_dc), state_if(wants_first, first_dc), weight_bytes, weights_->data(),
        library_workspace, workspace_, reserve, reserve_->data()));
    FORETRAIN_CUDA(cudaMemsetAsync(weight_gradients_->data(), 0, weight_bytes, stream()));
    FORETRAIN_CUDNN(cudnnRNNBackwardWeights_v8(
        b.context.cudnn, rnn_, CUDNN_WGRAD_MODE_ADD, lengths_.as<std::int32_t>(), x_, b.at(op_.x), state_,
        state_if(begins, first_h), y_, y(), weight_bytes, weight_gradients_->data(), library_workspace,
        workspace_, reserve, reserve_->data()));
    scatter_gradients(b.type, segments_.as<WeightSegment>(), segment_count_, weight_gradients_->data(),
                      {b.parameters.gradients().data, b.parameters.gradient_type(), adds_}, stream());
    if (wants_first) {
      states_from_library(b.type, states_, state(first_dh), state(first_dc), b.at(op_.inputs_dx[1]),
                          stream());
    }
  }

  Build build_;
  Operator op_;
  const Layer& layer_;
  const RecurrentStack& stack_;
  std::int64_t batch_, length_, width_;
  StateLayout states_;
  bool adds_ = false;
  RnnDescriptor rnn_;
  DataDescriptor x_, y_;
  TensorDescriptor state_;
  DropoutDescriptor dropout_;
  DeviceMemory dropout_states_, lengths_, segments_;
  // Programs of other lengths use the same; the last is zeros for all of them.
  std::shared_ptr<DeviceMemory> weights_, weight_gradients_, library_states_, reserve_, own_y_, no_gradient_;
  std::int64_t weight_bytes_ = 0, library_workspace_ = 0, state_bytes_ = 0;
  int segment_count_ = 0;
  std::byte* workspace_ = nullptr;
};

}  // namespace

std::unique_ptr<Runnable> make_recurrence(const Build& build, const Operator& op) {
  if (build.layer(op).recurrence.unrolled) return make_unrolled(build, op);
  return std::make_unique<RecurrenceOperator>(build, op);
}

}  // namespace foretrain::device::cuda
