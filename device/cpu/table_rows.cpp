#include "device/cpu/table_rows.hpp"

#include <algorithm>
#include <vector>

#include "device/cpu/loops.hpp"

namespace foretrain::device::cpu {
namespace {

constexpr std::int64_t number_bytes = sizeof(float);

}  // namespace

void gather_table_rows(const SparseTable& table, const TokenBatch& batch, const float* gradient, void* part) {
  const SparseLayout layout = sparse_layout(table.rows(batch.batch), table.features, number_bytes);
  auto* numbers = static_cast<std::int64_t*>(part);
  auto* values = reinterpret_cast<float*>(static_cast<std::byte*>(part) + layout.values);
  std::vector<bool> given(static_cast<std::size_t>(table.vocabulary), false);
  const auto give = [&](std::int64_t row, std::int64_t number) {
    numbers[row] = number;
    if (number >= 0)
      std::copy_n(gradient + number * table.features, table.features, values + row * table.features);
  };
  std::int64_t row = table.whole ? table.vocabulary : 0;
  for (const int stream : table.streams) {
    for (std::int64_t i = 0; i < batch.batch * table.length; ++i, ++row) {
      const std::int64_t from = (i / table.length * batch.streams + stream) * table.length + i % table.length;
      const std::int32_t token = batch.tokens[from];
      const auto which = static_cast<std::size_t>(token);
      give(row, given[which] ? -1 : token);
      given[which] = true;
    }
  }
  for (std::int64_t number = 0; table.whole && number < table.vocabulary; ++number)
    give(number, given[static_cast<std::size_t>(number)] ? -1 : number);
}

void add_table_rows(const SparseTable& table, std::int64_t batch, const void* parts, int ranks,
                    float* gradient) {
  const std::int64_t rows = table.rows(batch);
  const SparseLayout layout = sparse_layout(rows, table.features, number_bytes);
  parallel(table.vocabulary * table.features, [&](std::int64_t first, std::int64_t last) {
    std::fill(gradient + first, gradient + last, 0.0f);
  });
  for (int rank = 0; rank < ranks; ++rank) {
    const auto* part = static_cast<const std::byte*>(parts) + rank * layout.bytes;
    const auto* numbers = reinterpret_cast<const std::int64_t*>(part);
    const auto* values = reinterpret_cast<const float*>(part + layout.values);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t f = 0; numbers[row] >= 0 && f < table.features; ++f)
        gradient[numbers[row] * table.features + f] += values[row * table.features + f];
  }
}

}  // namespace foretrain::device::cpu
