#include "sim/network/collective_kind.hpp"

#include <array>

namespace foretrain {
namespace {

constexpr std::array names{"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                           "reduce",     "all_to_all",     "send_recv"};

}  // namespace

const char* name_of(CollectiveKind kind) {
  return names[static_cast<std::size_t>(kind)];
}

std::optional<CollectiveKind> collective_kind(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<CollectiveKind>(i);
  }
  return std::nullopt;
}

}  // namespace foretrain
