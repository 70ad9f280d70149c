#include "sim/base/random.hpp"

#include <bit>
#include <cmath>
#include <numbers>

namespace foretrain {
namespace {

std::uint64_t splitmix(std::uint64_t& x) {
  const std::uint64_t mixed = mixed_bits(x);
  x += 0x9e3779b97f4a7c15ULL;
  return mixed;
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::initializer_list<std::uint64_t> path) {
  std::uint64_t x = seed;
  for (std::uint64_t part : path) x = splitmix(x) ^ (part * 0xd1342543de82ef95ULL);
  for (std::uint64_t& word : state_) word = splitmix(x);
}

std::uint64_t RandomStream::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double RandomStream::uniform() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

double RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  const double angle = 2 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

}  // namespace foretrain
