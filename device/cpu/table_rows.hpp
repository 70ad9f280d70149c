// The gradient of an embedding's table as rows (device/sparse_table.hpp), in fp32.
#pragma once

#include <cstdint>

#include "device/sparse_table.hpp"

namespace foretrain::device::cpu {

struct TokenBatch {
  std::int64_t batch = 1, streams = 1;
  const std::int32_t* tokens = nullptr;  // batch x streams x length
};

void gather_table_rows(const SparseTable& table, const TokenBatch& batch, const float* gradient, void* part);
// The sum of all ranks' parts, in their order; rows that nobody names become zero.
void add_table_rows(const SparseTable& table, std::int64_t batch, const void* parts, int ranks,
                    float* gradient);

}  // namespace foretrain::device::cpu
