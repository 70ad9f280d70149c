#include "calibrate/rendezvous.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "sim/base/error.hpp"

using namespace foretrain;
using namespace foretrain::calibrate;

namespace {

// Ports differ between test programs that run at once.
LaunchedRank rank_of(int rank, int ranks, int offset) {
  LaunchedRank launched;
  launched.launcher = "mpirun";
  launched.rank = rank;
  launched.ranks = ranks;
  launched.host = "127.0.0.1";
  launched.port = 21000 + static_cast<int>(::getpid() % 20000) + offset;
  return launched;
}

}  // namespace

TEST_CASE("ranks meet over TCP, gather and broadcast") {
  constexpr int ranks = 4;
  std::vector<std::future<std::pair<std::vector<double>, std::size_t>>> results;
  for (int rank = ranks - 1; rank >= 0; --rank)
    results.push_back(std::async(std::launch::async, [rank] {
      const auto group = meet_over_tcp(rank_of(rank, ranks, 0), 20);
      group->barrier();
      std::vector<double> values;
      for (int round = 0; round < 50; ++round) values = group->all_gather(10.0 * rank + round);
      std::vector<std::byte> bytes;
      if (rank == 0) bytes.resize(128, std::byte{7});
      return std::make_pair(values, group->broadcast(bytes).size());
    }));
  for (auto& result : results) {
    const auto [values, size] = result.get();
    CHECK(values == std::vector<double>{49, 59, 69, 79});
    CHECK(size == 128);
  }
}

TEST_CASE("a rank that goes is noticed by the others") {
  auto leaver = std::async(std::launch::async, [] { meet_over_tcp(rank_of(1, 2, 1), 20); });
  const auto group = meet_over_tcp(rank_of(0, 2, 1), 20);
  leaver.get();
  CHECK_THROWS_AS(
      {
        for (int round = 0; round < 10; ++round) group->barrier();
      },
      Error);
  CHECK(group->failed());
}

TEST_CASE("ranks that never come are an error that says how many") {
  CHECK_THROWS_WITH_AS(meet_over_tcp(rank_of(0, 3, 2), 0.1), doctest::Contains("2 of 3 ranks never came"),
                       Error);
  CHECK_THROWS_WITH_AS(meet_over_tcp(rank_of(1, 3, 3), 0.1), doctest::Contains("--rendezvous"), Error);
  LaunchedRank nowhere = rank_of(0, 2, 4);
  nowhere.host.clear();
  CHECK_THROWS_WITH_AS(meet_over_tcp(nowhere, 0.1), doctest::Contains("--rendezvous HOST:PORT"), Error);
}
