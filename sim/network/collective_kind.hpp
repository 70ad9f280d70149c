// The collectives of a training job, by the names that nccl-tests uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace foretrain {

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  send_recv,
};

const char* name_of(CollectiveKind kind);
std::optional<CollectiveKind> collective_kind(std::string_view name);

}  // namespace foretrain
