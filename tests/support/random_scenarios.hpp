// Scenarios by chance, made from the schema tables: every key that a file may have is tried some time, beside
// every other, without a line here for each.
#pragma once

#include <cstdint>
#include <string>

namespace foretrain::test {

enum class Ranges {
  usual,  // a few nodes, quantities as they are in practice: most of these scenarios can be predicted
  all     // whatever the tables allow: 1 B to 1 EB, 1 bit/s to 100 Tbit/s, batches to 1e9
};

// The same seed gives the same text.
std::string random_scenario(std::uint64_t seed, Ranges ranges);

}  // namespace foretrain::test
