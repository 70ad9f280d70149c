#include "device/cuda/matmul.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/base/error.hpp"

namespace foretrain::device::cuda {
namespace {

cudaDataType_t cuda_type(Scalar type) {
  return type == Scalar::f32 ? CUDA_R_32F : type == Scalar::bf16 ? CUDA_R_16BF : CUDA_R_16F;
}

void create_layout(cublasLtMatrixLayout_t* layout, Scalar type, std::int64_t rows, std::int64_t columns,
                   std::int64_t batches) {
  FORETRAIN_CUBLAS(cublasLtMatrixLayoutCreate(layout, cuda_type(type), static_cast<std::uint64_t>(rows),
                                              static_cast<std::uint64_t>(columns), rows));
  if (batches == 1) return;
  const auto count = static_cast<std::int32_t>(batches);
  const std::int64_t stride = rows * columns;
  FORETRAIN_CUBLAS(
      cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
  FORETRAIN_CUBLAS(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                    &stride, sizeof stride));
}

}  // namespace

std::string MatmulProblem::key() const {
  std::string key;
  for (const std::int64_t n :
       {rows, columns, inner, std::int64_t{first_transposed}, std::int64_t{second_transposed},
        static_cast<std::int64_t>(type), static_cast<std::int64_t>(result_type), std::int64_t{tf32},
        std::int64_t{bias}, std::int64_t{relu}, std::int64_t{candidates}, batches, std::int64_t{alignment}}) {
    key += std::to_string(n) + ' ';
  }
  return key;
}

// cuBLASLt is column-major: a row-major matrix is its own transpose there, so that we ask for
// result^T = second^T first^T.
Matmul::Matmul(const MatmulProblem& p, const void* first, const void* second, void* result, const void* bias)
    : problem_(p), first_(first), second_(second), result_(result) {
  const cublasComputeType_t compute = p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  FORETRAIN_CUBLAS(cublasLtMatmulDescCreate(&operation_, compute, CUDA_R_32F));
  const auto set = [&](cublasLtMatmulDescAttributes_t name, const auto& value) {
    FORETRAIN_CUBLAS(cublasLtMatmulDescSetAttribute(operation_, name, &value, sizeof value));
  };
  const cublasOperation_t second_operation = p.second_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t first_operation = p.first_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(CUBLASLT_MATMUL_DESC_TRANSA, second_operation);
  set(CUBLASLT_MATMUL_DESC_TRANSB, first_operation);
  if (p.bias) {
    const cublasLtEpilogue_t epilogue = p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  // Rows and columns as they lie in memory, column-major.
  create_layout(&second_layout_, p.type, p.second_transposed ? p.inner : p.columns,
                p.second_transposed ? p.columns : p.inner, p.batches);
  create_layout(&first_layout_, p.type, p.first_transposed ? p.rows : p.inner,
                p.first_transposed ? p.inner : p.rows, p.batches);
  create_layout(&result_layout_, p.result_type, p.columns, p.rows, p.batches);
}

Matmul::~Matmul() {
  for (cublasLtMatrixLayout_t layout : {first_layout_, second_layout_, result_layout_}) {
    if (layout) cublasLtMatrixLayoutDestroy(layout);
  }
  if (operation_) cublasLtMatmulDescDestroy(operation_);
}

cublasStatus_t Matmul::try_run(cublasLtHandle_t handle, const cublasLtMatmulHeuristicResult_t& choice,
                               void* workspace, cudaStream_t stream, bool adds) const {
  const float scale = problem_.scale, kept = adds ? 1 : 0;
  return cublasLtMatmul(handle, operation_, &scale, second_, second_layout_, first_, first_layout_, &kept,
                        result_, result_layout_, result_, result_layout_, &choice.algo, workspace,
                        choice.workspaceSize, stream);
}

void Matmul::run(cublasLtHandle_t handle, void* workspace, cudaStream_t stream, bool adds) const {
  FORETRAIN_CUBLAS(try_run(handle, choice_, workspace, stream, adds));
}

void Matmul::choose(cublasLtHandle_t handle, std::map<std::string, cublasLtMatmulHeuristicResult_t>& known,
                    Workspace& workspace, cudaStream_t stream) {
  const std::string key = problem_.key();
  if (const auto found = known.find(key); found != known.end()) {
    choice_ = found->second;
    return;
  }
  cublasLtMatmulPreference_t preference = nullptr;
  FORETRAIN_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
  const std::size_t limit = workspace_limit;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit,
                                       sizeof limit);
  const auto alignment = static_cast<std::uint32_t>(problem_.alignment);
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    cublasLtMatmulPreferenceSetAttribute(preference, operand, &alignment, sizeof alignment);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(
      static_cast<std::size_t>(std::max(problem_.candidates, 1)));
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, operation_, second_layout_, first_layout_, result_layout_, result_layout_, preference,
      static_cast<int>(results.size()), results.data(), &count);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
    throw Error(ErrorKind::failure,
                "cuBLASLt has no algorithm for a product of " + std::to_string(problem_.rows) + " x " +
                    std::to_string(problem_.inner) + " x " + std::to_string(problem_.columns));
  }
  std::size_t most = 0;
  for (int i = 0; i < count; ++i) most = std::max(most, results[static_cast<std::size_t>(i)].workspaceSize);
  void* scratch = workspace.reserve(static_cast<std::int64_t>(most));
  choice_ = results[0];
  if (count > 1) {
    TimingEvent from, to;
    float shortest = std::numeric_limits<float>::max();
    for (int i = 0; i < count; ++i) {
      const auto& result = results[static_cast<std::size_t>(i)];
      if (try_run(handle, result, scratch, stream, false) != CUBLAS_STATUS_SUCCESS) continue;
      float least = std::numeric_limits<float>::max();
      for (int repetition = 0; repetition < 3; ++repetition) {
        FORETRAIN_CUDA(cudaEventRecord(from, stream));
        FORETRAIN_CUBLAS(try_run(handle, result, scratch, stream, false));
        FORETRAIN_CUDA(cudaEventRecord(to, stream));
        FORETRAIN_CUDA(cudaEventSynchronize(to));
        float milliseconds = 0;
        FORETRAIN_CUDA(cudaEventElapsedTime(&milliseconds, from, to));
        least = std::min(least, milliseconds);
      }
      if (least < shortest) {
        shortest = least;
        choice_ = result;
      }
    }
  }
  known[key] = choice_;
}

}  // namespace foretrain::device::cuda
