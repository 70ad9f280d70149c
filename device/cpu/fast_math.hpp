// Functions of one float without branches or calls, for loops that the compiler turns into vectors.
#pragma once

#include <bit>
#include <cstdint>

namespace foretrain::device::cpu {

// Within 2 units in the last place; below -87 it stays at 1e-38, above 88 at 2e38. By 2^n e^r with |r| <=
// ln(2) / 2, the polynomial of Cephes' expf (Moshier 1989).
inline float exp_of(float x) {
  constexpr float least = -87.0f, most = 88.0f, by_ln2 = 1.44269504088896341f;
  constexpr float whole = 12582912.0f;  // 1.5 x 2^23: adding it rounds to whole numbers
  x = x < least ? least : x;
  x = x > most ? most : x;
  const float rounded = x * by_ln2 + whole;
  const float n = rounded - whole;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = p * r * r + r + 1.0f;
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(rounded) - std::bit_cast<std::uint32_t>(whole))
                              << 23;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) + power);
}

inline float logistic_of(float x) {
  return 1.0f / (1.0f + exp_of(-x));
}

// To 1e-7 of 1.
inline float tanh_of(float x) {
  return 1.0f - 2.0f / (1.0f + exp_of(2.0f * x));
}

}  // namespace foretrain::device::cpu
