// How much longer the same work may take where it is watched.
#pragma once

#include <algorithm>
#include <string>

namespace foretrain::test {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FORETRAIN_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FORETRAIN_SANITIZED
#endif

// Sanitizers take about twenty times as long: for limits on seconds.
#ifdef FORETRAIN_SANITIZED
constexpr double slowdown = 20;
#else
constexpr double slowdown = 1;
#endif

// A budget of a calibration that has to reach all that it was asked for, as an option has it.
inline std::string budget(int seconds) {
  return std::to_string(seconds * static_cast<int>(std::min(slowdown, 4.0)));
}

}  // namespace foretrain::test
