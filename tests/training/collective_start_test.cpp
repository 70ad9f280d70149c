#include "sim/training/collective_start.hpp"

#include <doctest/doctest.h>

#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

CollectiveEntry entry(std::int64_t bytes, int nodes, double chain_us, double isolated_us) {
  CollectiveEntry out;
  out.kind = "all_reduce";
  out.ranks = 2;
  out.nodes = nodes;
  out.algorithm = "auto";
  out.element = "fp32";
  out.bytes = bytes;
  out.time.median = chain_us * 1e-6;
  out.isolated.median = isolated_us * 1e-6;
  out.isolated.repetitions = 9;
  return out;
}

}  // namespace

TEST_CASE(
    "a first collective costs what isolated calls took longer than a chain's, within and between nodes "
    "apart") {
  Profile profile;
  profile.collectives = {entry(1024, 1, 6, 14), entry(4096, 1, 8, 20), entry(4096, 2, 50, 40)};
  CHECK(collective_start(profile, "all_reduce", 1024, 2, 1, 0, 1) == approx(8e-6));
  CHECK(collective_start(profile, "all_reduce", 2048, 2, 1, 0, 1) == approx(10e-6));
  CHECK(collective_start(profile, "all_reduce", 1 << 30, 2, 1, 0, 1) == approx(12e-6));
  CHECK(collective_start(profile, "all_reduce", 1, 8, 2, 1e9, 1) == approx(-10e-6));
  CHECK(collective_start(profile, "broadcast", 1024, 2, 1, 0, 3e-6) == approx(3e-6));
  // 8 KiB took 14 us in half of its repetitions and 40 in the others: it tells nothing where others do.
  Profile odd = profile;
  odd.collectives.push_back(entry(8192, 1, 10, 30));
  odd.collectives.back().isolated.low = 14e-6;
  odd.collectives.back().isolated.high = 40e-6;
  CHECK(collective_start(odd, "all_reduce", 8192, 2, 1, 0, 1) == approx(12e-6));
  odd.collectives = {odd.collectives.back()};
  CHECK(collective_start(odd, "all_reduce", 8192, 2, 1, 0, 1) == approx(20e-6));
  // A burst of a line of 10 Gbit/s is worth a tenth on one of 100, and no more on a slower one.
  profile.collectives[2].line_rate = 1.25e9;
  CHECK(collective_start(profile, "all_reduce", 4096, 2, 2, 1.25e9, 1) == approx(-10e-6));
  CHECK(collective_start(profile, "all_reduce", 4096, 2, 2, 12.5e9, 1) == approx(-1e-6));
  CHECK(collective_start(profile, "all_reduce", 4096, 2, 2, 0.125e9, 1) == approx(-10e-6));
  profile.collectives[2].isolated.median = 70e-6;
  CHECK(collective_start(profile, "all_reduce", 4096, 2, 2, 12.5e9, 1) == approx(20e-6));
}
