// Numbers that are near each other, relative to themselves.
#pragma once

#include <doctest/doctest.h>

namespace foretrain::test {

// doctest's own is near within epsilon x (1 + the number): of times below a second that lets anything pass.
// Of nothing only nothing is near.
inline doctest::Approx approx(double value) {
  return doctest::Approx(value).scale(1e-290);
}

}  // namespace foretrain::test
