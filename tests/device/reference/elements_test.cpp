#include "device/reference/elements.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

using namespace foretrain::device;
using namespace foretrain::device::reference;

namespace {

std::uint16_t bits_of(ElementType type, double value) {
  std::uint16_t bits = 0;
  store(&bits, 0, type, value);
  return bits;
}

}  // namespace

TEST_CASE("fp16 and bf16 round to nearest even and keep their special values") {
  CHECK(bits_of(ElementType::fp16, 0) == 0x0000);
  CHECK(bits_of(ElementType::fp16, 1) == 0x3c00);
  CHECK(bits_of(ElementType::fp16, -2) == 0xc000);
  CHECK(bits_of(ElementType::fp16, 65504) == 0x7bff);
  CHECK(bits_of(ElementType::fp16, 65520) == 0x7c00);
  CHECK(bits_of(ElementType::fp16, std::ldexp(1, -24)) == 0x0001);
  CHECK(bits_of(ElementType::fp16, std::ldexp(1, -14)) == 0x0400);
  CHECK(bits_of(ElementType::fp16, 1 + std::ldexp(1, -11)) == 0x3c00);      // a tie goes to even
  CHECK(bits_of(ElementType::fp16, 1 + 3 * std::ldexp(1, -11)) == 0x3c02);  // up, where that is even
  CHECK(bits_of(ElementType::bf16, 1) == 0x3f80);
  CHECK(bits_of(ElementType::bf16, 1 + std::ldexp(1, -8)) == 0x3f80);
  CHECK(bits_of(ElementType::bf16, 1 + 3 * std::ldexp(1, -8)) == 0x3f82);
  CHECK(bits_of(ElementType::bf16, 1e39) == 0x7f80);
}

TEST_CASE("every fp16 and bf16 number comes back as itself") {
  for (const ElementType type : {ElementType::fp16, ElementType::bf16}) {
    int different = 0;
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const double value = load(&half, 0, type);
      if (!std::isnan(value) && bits_of(type, value) != half) ++different;
      if (std::isnan(value) && !std::isnan(load(&half, 0, type))) ++different;
    }
    CHECK(different == 0);
  }
}
