// Numbers in memory as fp64, fp32, bf16 and fp16, read and written as double; rounding is to nearest even.
#pragma once

#include <cstdint>

#include "device/backend.hpp"

namespace foretrain::device::reference {

std::int64_t bytes_of(ElementType type);
double load(const void* data, std::int64_t index, ElementType type);
void store(void* data, std::int64_t index, ElementType type, double value);

}  // namespace foretrain::device::reference
