// Our flows against SimGrid's on the same links, ways and sizes. SimGrid lives once a process, so that each
// case asks it in a child.
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <cmath>
#include <iostream>

#include "tests/simgrid/peer.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

// What a function answers in a process of its own.
template <typename Ask>
std::vector<double> in_child(std::size_t count, const Ask& ask) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::cout.flush();  // or the child writes it again
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(ends[0]);
    const std::vector<double> answer = ask();
    const char* at = reinterpret_cast<const char*>(answer.data());
    std::size_t left = answer.size() * sizeof(double);
    while (left > 0) {
      const ssize_t wrote = write(ends[1], at, left);
      if (wrote <= 0) _exit(1);
      at += wrote;
      left -= static_cast<std::size_t>(wrote);
    }
    _exit(0);
  }
  close(ends[1]);
  std::vector<double> answer(count);
  char* at = reinterpret_cast<char*>(answer.data());
  std::size_t left = count * sizeof(double);
  while (left > 0) {
    const ssize_t got = read(ends[0], at, left);
    if (got <= 0) break;
    at += got;
    left -= static_cast<std::size_t>(got);
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  REQUIRE(left == 0);
  return answer;
}

std::string name_of(PeerShape shape) {
  switch (shape) {
    case PeerShape::star:
      return "star";
    case PeerShape::fat_tree:
      return "fat tree";
    case PeerShape::dragonfly:
      return "dragonfly";
  }
  return "?";
}

void compare(const Topology& topology, const std::vector<PeerFlow>& flows) {
  const std::vector<double> own = own_times(topology, flows);
  const std::vector<double> peer = in_child(flows.size(), [&] { return simgrid_times(topology, flows); });
  double worst = 0;
  for (std::size_t f = 0; f < flows.size(); ++f) {
    REQUIRE(peer[f] > 0);
    worst = std::max(worst, std::abs(own[f] / peer[f] - 1));
  }
  MESSAGE("largest difference of " << flows.size() << " completion times: " << worst);
  CHECK(worst < 1e-3);
}

}  // namespace

TEST_CASE("random unequal flows end when SimGrid's do") {
  for (PeerShape shape : {PeerShape::star, PeerShape::fat_tree, PeerShape::dragonfly}) {
    for (std::uint64_t seed : {1, 2, 3}) {
      CAPTURE(name_of(shape));
      CAPTURE(seed);
      compare(peer_topology(shape, 128, 10, 2), random_flows(128, 4, seed));
    }
  }
}

TEST_CASE("an all-to-all of unequal sizes ends when SimGrid's does") {
  for (PeerShape shape : {PeerShape::star, PeerShape::fat_tree, PeerShape::dragonfly}) {
    CAPTURE(name_of(shape));
    compare(peer_topology(shape, 32, 10, 0), random_flows(32, 0, 7));
  }
}

TEST_CASE("a ring step by step ends when SimGrid's does") {
  for (PeerShape shape : {PeerShape::star, PeerShape::fat_tree, PeerShape::dragonfly}) {
    CAPTURE(name_of(shape));
    const Topology topology = peer_topology(shape, 64, 25, 1);
    const double own = own_ring(topology, 64e6);
    const double peer = in_child(1, [&] { return std::vector<double>{simgrid_ring(topology, 64e6)}; })[0];
    CHECK(own == approx(peer).epsilon(1e-3));
  }
}
