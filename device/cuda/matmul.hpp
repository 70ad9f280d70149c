// Matrix products of linear layers by cuBLASLt, row-major: the fastest of the heuristics' best few
// algorithms.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <string>

#include "device/cuda/check_libraries.hpp"
#include "device/cuda/convolution.hpp"
#include "device/cuda/kernels.hpp"

namespace foretrain::device::cuda {

class CublasHandle {
 public:
  CublasHandle() { FORETRAIN_CUBLAS(cublasLtCreate(&handle_)); }
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;
  ~CublasHandle() { cublasLtDestroy(handle_); }
  operator cublasLtHandle_t() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

// result (rows x columns) = first (rows x inner) times second (inner x columns); a transposed operand lies in
// memory as columns x rows of what it stands for. Of `batches` products each operand lies after that of the
// product before.
struct MatmulProblem {
  std::int64_t rows, columns, inner;
  bool first_transposed = false, second_transposed = false;
  Scalar type;         // of both operands
  Scalar result_type;  // fp32, or that of the operands
  bool tf32 = false;
  bool bias = false, relu = false;  // added to each row of the result; bias has the result's type
  int candidates = 3;
  std::int64_t batches = 1;
  float scale = 1;      // of the product
  int alignment = 256;  // bytes, of all operands
  std::string key() const;
};

class Matmul {
 public:
  static constexpr std::int64_t workspace_limit = std::int64_t{64} << 20;

  Matmul(const MatmulProblem& problem, const void* first, const void* second, void* result, const void* bias);
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  ~Matmul();

  // Other operands of the same shapes.
  void place(const void* first, const void* second, void* result) {
    first_ = first;
    second_ = second;
    result_ = result;
  }
  // Picks the algorithm: from `known` where the problem is there, else by timing, and adds it there.
  void choose(cublasLtHandle_t handle, std::map<std::string, cublasLtMatmulHeuristicResult_t>& known,
              Workspace& workspace, cudaStream_t stream);
  std::int64_t workspace() const { return static_cast<std::int64_t>(choice_.workspaceSize); }
  // result = product, or result + product where `adds`.
  void run(cublasLtHandle_t handle, void* workspace, cudaStream_t stream, bool adds = false) const;

 private:
  cublasStatus_t try_run(cublasLtHandle_t handle, const cublasLtMatmulHeuristicResult_t& choice,
                         void* workspace, cudaStream_t stream, bool adds) const;

  MatmulProblem problem_;
  const void *first_, *second_;
  void* result_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t first_layout_ = nullptr, second_layout_ = nullptr, result_layout_ = nullptr;
  cublasLtMatmulHeuristicResult_t choice_{};
};

}  // namespace foretrain::device::cuda
