#include "sim/base/host_identity.hpp"

#include <fstream>

#include "sim/base/sha256.hpp"

namespace foretrain {

std::string host_identity() {
  std::ifstream stream("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  constexpr std::size_t digits = 16;
  return stream >> boot_id ? sha256(boot_id).substr(0, digits) : "";
}

}  // namespace foretrain
