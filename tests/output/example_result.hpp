// Results made by hand, for tests of the reporters.
#pragma once

#include "sim/output/result.hpp"

namespace foretrain::test {

// Eight workers on two nodes, network-bound; every member has a value of its own.
Result example_result();

}  // namespace foretrain::test
