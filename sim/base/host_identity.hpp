// Tells one machine from another of the same kind.
#pragma once

#include <string>

namespace foretrain {

// A digest of the running kernel's boot id, which differs between machines and between boots of one; empty
// where the system has none.
std::string host_identity();

}  // namespace foretrain
