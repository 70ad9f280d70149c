// SHA-256 (FIPS 180-4), to tell whether a prediction or a profile is the one that was stored.
#pragma once

#include <string>
#include <string_view>

namespace foretrain {

// 64 hexadecimal digits in lower case.
std::string sha256(std::string_view bytes);

}  // namespace foretrain
