#include "sim/network/contention.hpp"

#include <doctest/doctest.h>

#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

std::vector<double> progress(const std::vector<std::vector<LinkBusy>>& all) {
  std::vector<const std::vector<LinkBusy>*> loads;
  for (const auto& each : all) loads.push_back(&each);
  return progress_of(loads);
}

}  // namespace

// On one link: a + b = 1 where both want more than half; who wants less has it.
TEST_CASE("two collectives on one link halve it, or one leaves what it does not need") {
  CHECK(progress({{{0, 1}}, {{0, 1}}}) == std::vector<double>{0.5, 0.5});
  CHECK(progress({{{0, 0.25}}, {{0, 1}}}) == std::vector<double>{1, 0.75});
  CHECK(progress({{{0, 0.5}}, {{0, 0.5}}}) == std::vector<double>{1, 1});
  CHECK(progress({{{0, 0.8}}, {{0, 1}}}) == std::vector<double>{0.625, 0.5});
  CHECK(progress({{{0, 1}}, {{1, 1}}}) == std::vector<double>{1, 1});
  CHECK(progress({{{3, 1}}}) == std::vector<double>{1});
}

// A crosses both links, B the first, C and D the second: a = c = d = 1/3, b = 1 - a.
TEST_CASE("what a collective that is slow elsewhere leaves goes to the others") {
  const auto all = progress({{{0, 1}, {1, 1}}, {{0, 1}}, {{1, 1}}, {{1, 1}}});
  CHECK(all[0] == approx(1.0 / 3));
  CHECK(all[1] == approx(2.0 / 3));
  CHECK(all[2] == approx(1.0 / 3));
  CHECK(all[3] == approx(1.0 / 3));
}
