#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/random.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

TEST_CASE("a stream depends on seed and path alone") {
  RandomStream a(7, {1, 2}), b(7, {1, 2}), c(7, {2, 1}), d(8, {1, 2});
  const auto first = a.next();
  CHECK(first == b.next());
  CHECK(first != c.next());
  CHECK(first != d.next());
}

TEST_CASE("uniform and normal draws have the moments of their distributions") {
  RandomStream stream(1);
  double uniform = 0, normal = 0, square = 0;
  const int n = 100'000;
  for (int i = 0; i < n; ++i) {
    uniform += stream.uniform();
    const double x = stream.normal();
    normal += x;
    square += x * x;
  }
  CHECK(uniform / n == approx(0.5).epsilon(0.01));
  CHECK(std::fabs(normal / n) < 0.02);
  CHECK(square / n == approx(1).epsilon(0.02));
}
