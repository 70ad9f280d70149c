#include "sim/input/gunzip.hpp"
#include "sim/input/profile_json.hpp"
#include "tests/fuzz/fuzz.hpp"

FORETRAIN_FUZZ(profile) {
  using namespace foretrain;
  Diagnostics diagnostics;
  std::string unpacked;
  if (text.starts_with("\x1f\x8b")) {
    constexpr std::size_t limit = std::size_t{16} << 20;
    unpacked = gunzip(text, "profile.json.gz", limit);
    text = unpacked;
  }
  parse_profile(text, "profile.json", diagnostics);
}
