#include "sim/network/collective_table.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/network/families.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

TEST_CASE("sizes: one, a list, a range with a factor") {
  auto counts = [](const char* text) {
    std::vector<std::int64_t> all;
    for (Bytes size : parse_sizes(text)) all.push_back(size.count());
    return all;
  };
  CHECK(counts("64MiB") == std::vector<std::int64_t>{67108864});
  CHECK(counts("1KiB, 1 MB") == std::vector<std::int64_t>{1024, 1000000});
  CHECK(counts("1KiB..1MiB*4") == std::vector<std::int64_t>{1024, 4096, 16384, 65536, 262144, 1048576});
  CHECK(counts("1KiB..4KiB") == std::vector<std::int64_t>{1024, 2048, 4096});
  CHECK(counts("1KiB..1GiB*4,2B").size() == 12);
  for (const char* wrong : {"", "12", "1KiB..", "4KiB..1KiB", "1KiB..1GiB*1", "1KiB..1GiB*x",
                            "1B..1GiB*1.0001", "1KiB,,2KiB", "0B..1KiB"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_sizes(wrong), Error);
  }
}

TEST_CASE("bandwidths as nccl-tests counts them") {
  const Topology topology = make_topology(Star{4, Rate::bits_per_second(10e9), Time(), {}});
  CollectiveRequest request;
  request.sizes = {Bytes(8'000'000)};
  request.stepwise = true;
  const CollectiveTable table = collective_table(topology, nullptr, request);
  REQUIRE(table.rows.size() == 1);
  CHECK(table.rows[0].bus_bandwidth == approx(1.25e9));
  CHECK(table.rows[0].algorithm_bandwidth == approx(1.25e9 / 1.5));
  CHECK(table.ranks == 4);
}
