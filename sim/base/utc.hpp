#pragma once

#include <string>

namespace foretrain {

// Now, as ISO 8601 to the second: "2026-01-31T23:59:59Z".
std::string utc_now();

}  // namespace foretrain
