// A rank's record as bytes, on its way to the rank that writes the run record.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "execute/run_record.hpp"

namespace foretrain {

std::vector<std::byte> bytes_of(const RankRecord& record);
// Throws Error (failure) where the bytes end early or go on.
RankRecord rank_record_of(std::span<const std::byte> bytes);

}  // namespace foretrain
