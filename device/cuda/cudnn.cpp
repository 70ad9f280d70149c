#include "device/cuda/cudnn.hpp"

#include <array>

namespace foretrain::device::cuda {
namespace {

std::vector<Descriptor> engine_configs(const Descriptor& graph, cudnnBackendHeurMode_t mode, int most) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (!heuristics.try_finalize()) return {};
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int i = 0; i < most; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back());
  }
  std::int64_t count = 0;
  if (cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, most,
                               &count, raw.data()) != CUDNN_STATUS_SUCCESS) {
    return {};
  }
  while (static_cast<std::int64_t>(configs.size()) > count) configs.pop_back();
  return configs;
}

bool allowed(const Descriptor& config, const PlanLimits& limits) {
  if (limits.tensor_cores && !limits.deterministic) return true;
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine;
  std::int64_t count = 0;
  FORETRAIN_CUDNN(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                           1, &count, &raw));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  FORETRAIN_CUDNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                           CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count,
                                           notes.data()));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto note = notes[static_cast<std::size_t>(i)];
    if (limits.deterministic && note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
    if (!limits.tensor_cores &&
        (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) {
      return false;
    }
  }
  return true;
}

}  // namespace

cudnnDataType_t cudnn_type(Scalar type) {
  return type == Scalar::f32    ? CUDNN_DATA_FLOAT
         : type == Scalar::bf16 ? CUDNN_DATA_BFLOAT16
                                : CUDNN_DATA_HALF;
}

Descriptor tensor_descriptor(std::int64_t id, cudnnDataType_t type,
                             const std::vector<std::int64_t>& dimensions,
                             const std::vector<std::int64_t>& strides, TensorKind kind) {
  Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  descriptor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dimensions);
  descriptor.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  descriptor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  if (kind.is_virtual) descriptor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  if (kind.by_value) descriptor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  descriptor.finalize();
  return descriptor;
}

Descriptor pointwise_operation(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b,
                               const Descriptor& y, const Descriptor* condition, int axis,
                               cudnnDataType_t precision) {
  Descriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, precision);
  if (axis >= 0) kind.set(CUDNN_ATTR_POINTWISE_AXIS, std::int64_t{axis});
  kind.finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  if (condition) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *condition);
  operation.finalize();
  return operation;
}

std::vector<Plan> candidate_plans(cudnnHandle_t handle, const std::vector<const Descriptor*>& operations,
                                  const PlanLimits& limits) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Descriptor* operation : operations) raw.push_back(*operation);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(raw.size()), raw.data());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  if (!graph.try_finalize()) return {};

  std::vector<Plan> plans;
  const auto wanted = static_cast<std::size_t>(limits.candidates);
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    // Mode B repeats much of A: asked only where A gave too few.
    if (!plans.empty() && (plans.size() >= wanted || mode == CUDNN_HEUR_MODE_FALLBACK)) break;
    for (Descriptor& config : engine_configs(graph, mode, 32)) {
      if (plans.size() >= wanted) break;
      if (!allowed(config, limits)) continue;
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      if (!plan.try_finalize()) continue;
      std::int64_t workspace = 0, count = 0;
      FORETRAIN_CUDNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                               CUDNN_TYPE_INT64, 1, &count, &workspace));
      if (workspace > limits.workspace) continue;
      plans.push_back({std::move(plan), std::move(config), workspace});
    }
  }
  return plans;
}

Descriptor variant_pack(const std::vector<std::int64_t>& ids, const std::vector<void*>& pointers,
                        void* workspace) {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           static_cast<std::int64_t>(pointers.size()), pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.finalize();
  return pack;
}

}  // namespace foretrain::device::cuda
