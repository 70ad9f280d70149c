// What the fuzz targets have in common. A target reads its bytes as one reader would; every error is
// foretrain::Error, everything else is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "sim/base/error.hpp"
#include "sim/input/catalog.hpp"

namespace foretrain::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// What ships, found from the folder in which the program runs.
inline const Catalog& catalog() {
  static const Catalog shipped({"."});
  return shipped;
}

template <typename Body>
int guarded(const Body& body) {
  try {
    body();
  } catch (const Error&) {
  }
  return 0;
}

// By name; of the test program, where all of them are.
inline std::map<std::string, void (*)(std::string_view)>& targets() {
  static std::map<std::string, void (*)(std::string_view)> all;
  return all;
}

}  // namespace foretrain::fuzz

// FORETRAIN_FUZZ(model) { ... text ... } is a target: of libFuzzer's program of that name, and in the test
// program one that replays its seeds (replay_test.cpp).
#ifdef FORETRAIN_FUZZER
#define FORETRAIN_FUZZ(name)                                                                     \
  void fuzz_##name(std::string_view text);                                                       \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {            \
    return foretrain::fuzz::guarded([&] { fuzz_##name(foretrain::fuzz::text_of(data, size)); }); \
  }                                                                                              \
  void fuzz_##name(std::string_view text)
#else
#define FORETRAIN_FUZZ(name)                                                                          \
  void fuzz_##name(std::string_view text);                                                            \
  static const bool is_known_##name = foretrain::fuzz::targets().emplace(#name, &fuzz_##name).second; \
  void fuzz_##name(std::string_view text)
#endif
