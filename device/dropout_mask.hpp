// Which elements dropout keeps, as a function of numbers alone: nothing is stored, and backends that use it
// drop the same ones.
#pragma once

#include <cmath>
#include <cstdint>

#include "sim/base/random.hpp"

namespace foretrain::device {

// What an element is multiplied by: 0, or 1 / (1 - probability). `draw` numbers the batches and updates.
class DropoutMask {
 public:
  DropoutMask(std::uint64_t seed, std::uint64_t draw, std::uint64_t layer, double probability)
      : name_(mixed_bits(mixed_bits(seed ^ mixed_bits(draw)) ^ layer)),
        dropped_(probability > 0 ? static_cast<std::uint64_t>(std::ceil(probability * 0x1p53)) : 0),
        kept_(probability > 0 ? 1 / (1 - probability) : 1) {}
  double at(std::int64_t element) const {
    return mixed_bits(name_ ^ static_cast<std::uint64_t>(element)) >> 11 < dropped_ ? 0 : kept_;
  }

 private:
  std::uint64_t name_, dropped_;  // below dropped_: of numbers of 53 bits
  double kept_;
};

}  // namespace foretrain::device
