#include "device/cuda/convolution.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "device/cuda/owners.hpp"

namespace foretrain::device::cuda {
namespace {

enum Id : std::int64_t { x_id = 1, w_id, y_id, bias_id, convolved_id, biased_id };

Descriptor tensor(std::int64_t id, Scalar type, const std::vector<std::int64_t>& dimensions,
                  bool is_virtual = false) {
  // N, C, H, W with the channels last in memory.
  const std::int64_t c = dimensions[1], h = dimensions[2], w = dimensions[3];
  return tensor_descriptor(id, cudnn_type(type), dimensions, {c * h * w, 1, w * c, c},
                           {.is_virtual = is_virtual});
}

Descriptor convolution_descriptor(const Window& window) {
  Descriptor descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const std::vector<std::int64_t> pad{window.pad_h, window.pad_w};
  descriptor.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  descriptor.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pad);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pad);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                 std::vector<std::int64_t>{window.stride_h, window.stride_w});
  descriptor.set(CUDNN_ATTR_CONVOLUTION_DILATIONS,
                 std::vector<std::int64_t>{window.dilation_h, window.dilation_w});
  descriptor.finalize();
  return descriptor;
}

// Where each kind of operation keeps its attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t kind;
  cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
};
constexpr OperationNames forward_names{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr OperationNames data_names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr OperationNames weights_names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

bool has_bias(ConvolutionPass pass) {
  return pass == ConvolutionPass::forward_bias || pass == ConvolutionPass::forward_bias_relu;
}

std::vector<Plan> plans_for(cudnnHandle_t handle, const ConvolutionProblem& p, ConvolutionPass pass) {
  const Window& window = p.window;
  const bool weights = pass == ConvolutionPass::backward_weights;
  const bool bias = has_bias(pass);
  const OperationNames& names = weights                                  ? weights_names
                                : pass == ConvolutionPass::backward_data ? data_names
                                                                         : forward_names;
  const std::vector<std::int64_t> output{p.batch, p.out_channels, p.out_h, p.out_w};
  const Descriptor x = tensor(x_id, p.type, {p.batch, p.in_channels, p.in_h, p.in_w});
  const Descriptor w =
      tensor(w_id, weights ? p.weights_type : p.type,
             {p.out_channels, p.in_channels / window.groups, window.kernel_h, window.kernel_w});
  const Descriptor y = tensor(y_id, p.type, output);
  const Descriptor convolved = tensor(convolved_id, Scalar::f32, output, true);
  const Descriptor kind = convolution_descriptor(window);
  Descriptor operation(names.kind);
  operation.set(names.convolution, kind);
  operation.set(names.x, x);
  operation.set(names.w, w);
  operation.set(names.y, bias ? convolved : y);
  operation.set(names.alpha, 1.0f);
  operation.set(names.beta, 0.0f);
  operation.finalize();

  PlanLimits limits;
  limits.candidates = p.candidates;
  limits.workspace = PlanCache::workspace_limit;
  limits.deterministic = p.deterministic;
  limits.tensor_cores = p.type != Scalar::f32 || p.tf32;
  if (!bias) return candidate_plans(handle, {&operation}, limits);

  const bool relu = pass == ConvolutionPass::forward_bias_relu;
  const Descriptor shift = tensor(bias_id, Scalar::f32, {1, p.out_channels, 1, 1});
  const Descriptor biased = tensor(biased_id, Scalar::f32, output, true);
  const Descriptor addition = pointwise_operation(CUDNN_POINTWISE_ADD, convolved, &shift, relu ? biased : y);
  if (!relu) return candidate_plans(handle, {&operation, &addition}, limits);
  const Descriptor clip = pointwise_operation(CUDNN_POINTWISE_RELU_FWD, biased, nullptr, y);
  return candidate_plans(handle, {&operation, &addition, &clip}, limits);
}

}  // namespace

std::string ConvolutionProblem::key(ConvolutionPass pass) const {
  std::string key;
  for (const std::int64_t n : {static_cast<std::int64_t>(pass),
                               batch,
                               in_channels,
                               in_h,
                               in_w,
                               out_channels,
                               out_h,
                               out_w,
                               std::int64_t{window.kernel_h},
                               std::int64_t{window.kernel_w},
                               std::int64_t{window.stride_h},
                               std::int64_t{window.stride_w},
                               std::int64_t{window.pad_h},
                               std::int64_t{window.pad_w},
                               std::int64_t{window.dilation_h},
                               std::int64_t{window.dilation_w},
                               std::int64_t{window.groups},
                               static_cast<std::int64_t>(type),
                               static_cast<std::int64_t>(weights_type),
                               std::int64_t{tf32},
                               std::int64_t{deterministic},
                               std::int64_t{candidates}}) {
    key += std::to_string(n) + ' ';
  }
  return key;
}

// The convolution's operands by id, whatever the pass calls its result.
static Descriptor pack_for(ConvolutionPass pass, const ConvolutionTensors& t, void* workspace) {
  switch (pass) {
    case ConvolutionPass::backward_data:
      return variant_pack({y_id, w_id, x_id}, {t.first, t.second, t.result}, workspace);
    case ConvolutionPass::backward_weights:
      return variant_pack({x_id, y_id, w_id}, {t.first, t.second, t.result}, workspace);
    case ConvolutionPass::forward:
      return variant_pack({x_id, w_id, y_id}, {t.first, t.second, t.result}, workspace);
    default:
      return variant_pack({x_id, w_id, y_id, bias_id}, {t.first, t.second, t.result, t.bias}, workspace);
  }
}

void Convolution::bind(void* workspace) {
  pack_.emplace(pack_for(pass_, tensors_, workspace));
}

TimedPlan PlanCache::find(const ConvolutionProblem& problem, ConvolutionPass pass,
                          const ConvolutionTensors& tensors, Workspace& workspace) {
  const std::string key = problem.key(pass);
  if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
  const auto began = std::chrono::steady_clock::now();
  std::vector<Plan> plans = plans_for(handle_, problem, pass);
  std::int64_t most = 0;
  for (const Plan& plan : plans) most = std::max(most, plan.workspace);
  void* scratch = workspace.reserve(most);
  constexpr int repetitions = 3;
  TimingEvent events[repetitions + 1];
  TimedPlan best;
  for (Plan& plan : plans) {
    const Descriptor pack = pack_for(pass, tensors, scratch);
    const auto run = [&] { return cudnnBackendExecute(handle_, plan.plan, pack); };
    if (run() != CUDNN_STATUS_SUCCESS) continue;
    FORETRAIN_CUDA(cudaEventRecord(events[0], stream_));
    for (int r = 0; r < repetitions; ++r) {
      FORETRAIN_CUDNN(run());
      FORETRAIN_CUDA(cudaEventRecord(events[r + 1], stream_));
    }
    FORETRAIN_CUDA(cudaEventSynchronize(events[repetitions]));
    float least = std::numeric_limits<float>::max();
    for (int r = 0; r < repetitions; ++r) {
      float milliseconds = 0;
      FORETRAIN_CUDA(cudaEventElapsedTime(&milliseconds, events[r], events[r + 1]));
      least = std::min(least, milliseconds);
    }
    if (!best.plan || least * 1e-3 < best.seconds) {
      best = {std::make_shared<const Plan>(std::move(plan)), least * 1e-3};
    }
  }
  plans_[key] = best;
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return best;
}

}  // namespace foretrain::device::cuda
