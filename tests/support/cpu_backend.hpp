// The cpu backend, where it was built: it is optional.
#pragma once

#include "device/backend.hpp"

namespace foretrain::test {

// Null, with a line on standard error, where there is none.
device::Backend* cpu_backend();

}  // namespace foretrain::test
