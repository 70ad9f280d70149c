// Random bits as a function of seed and index: no state.
#pragma once

#include <cstdint>

namespace foretrain::device::cuda {

// A mixing of 64 bits (splitmix64, Steele et al. 2014).
__device__ inline uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Whether an element survives a dropout: 16 bits of a mixing that four neighbours share.
__device__ inline bool is_kept(uint64_t seed, int64_t index, unsigned threshold) {
  const uint64_t bits = mix(seed ^ mix(static_cast<uint64_t>(index >> 2)));
  return ((bits >> (16 * (index & 3))) & 0xffff) >= threshold;
}
inline unsigned dropout_threshold(float probability) {
  return static_cast<unsigned>(probability * 65536.0f + 0.5f);
}

}  // namespace foretrain::device::cuda
