#include "device/reference/elements.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace foretrain::device::reference {
namespace {

template <typename T>
T read(const void* data, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<std::int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

template <typename T>
void write(void* data, std::int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

// bf16 is the upper half of fp32.
std::uint16_t to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

double from_bf16(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

// fp16: sign, 5 bits of exponent with bias 15, 10 bits of fraction; subnormal below 2^-14.
std::uint16_t to_fp16(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double size = std::fabs(value);
  if (size >= 65520) return sign | 0x7c00;
  if (size == 0) return sign;
  int exponent = 0;
  std::frexp(size, &exponent);  // size = f 2^exponent, f in [0.5, 1)
  const int scale = std::max(exponent - 1, -14);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - scale)));  // of 2^(scale - 10)
  // 1024 units are the hidden bit, which raises the exponent's field by one; so does a carry.
  return static_cast<std::uint16_t>(sign | (((scale + 14) << 10) + units));
}

double from_fp16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  double size = exponent == 0   ? std::ldexp(fraction, -24)
                : exponent < 31 ? std::ldexp(1024 + fraction, exponent - 25)
                : fraction == 0 ? HUGE_VAL
                                : std::nan("");
  return (bits & 0x8000) != 0 ? -size : size;
}

}  // namespace

std::int64_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::fp64:
      return 8;
    case ElementType::fp32:
      return 4;
    case ElementType::bf16:
    case ElementType::fp16:
      return 2;
  }
  return 0;
}

double load(const void* data, std::int64_t index, ElementType type) {
  switch (type) {
    case ElementType::fp64:
      return read<double>(data, index);
    case ElementType::fp32:
      return static_cast<double>(read<float>(data, index));
    case ElementType::bf16:
      return from_bf16(read<std::uint16_t>(data, index));
    case ElementType::fp16:
      return from_fp16(read<std::uint16_t>(data, index));
  }
  return 0;
}

void store(void* data, std::int64_t index, ElementType type, double value) {
  switch (type) {
    case ElementType::fp64:
      return write(data, index, value);
    case ElementType::fp32:
      return write(data, index, static_cast<float>(value));
    case ElementType::bf16:
      return write(data, index, to_bf16(value));
    case ElementType::fp16:
      return write(data, index, to_fp16(value));
  }
}

}  // namespace foretrain::device::reference
