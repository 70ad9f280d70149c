// Random streams that are the same on every compiler and library: xoshiro256** seeded by splitmix64
// (Blackman and Vigna, 2018). A stream is named by a seed and a path of numbers, so that draws of one rank or
// step do not depend on how many others drew before.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

namespace foretrain {

// splitmix64's step (Steele, Lea, Flood 2014): a bijection in which every bit of x counts for every bit.
constexpr std::uint64_t mixed_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed, std::initializer_list<std::uint64_t> path = {});

  std::uint64_t next();
  double uniform();  // in [0, 1)
  double normal();   // mean 0, standard deviation 1 (Box and Muller)

 private:
  std::array<std::uint64_t, 4> state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace foretrain
