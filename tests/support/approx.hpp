// Numbers that are near each other, relative to themselves.
#pragma once

#include <doctest/doctest.h>

namespace foretrain::test {

// doctest's own is near within epsilon x (1 + the number): of times below a second that lets anything pass.
inline doctest::Approx approx(double value) {
  return doctest::Approx(value).scale(0);
}

}  // namespace foretrain::test
