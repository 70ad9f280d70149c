#include "execute/peer_processes.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

using namespace foretrain;

namespace {

// Until a state is as expected; the system takes a moment.
bool becomes(const PeerProcesses& peers, int rank, const std::string& state) {
  for (int turn = 0; turn < 200; ++turn) {
    if (peers.state_of(rank).ends_with(state)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE("processes of this machine are seen to run, to stop and to end") {
  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const std::string own = own_process();
    const auto written = ::write(ends[1], own.data(), own.size());
    ::pause();
    ::_exit(written > 0 ? 0 : 1);
  }
  char text[256] = {};
  REQUIRE(::read(ends[0], text, sizeof text - 1) > 0);
  const PeerProcesses peers({own_process(), text, "elsewhere 1 100", ""});
  CHECK(peers.numbers_of({0, 0, 2, 3}) == std::vector<int>{static_cast<int>(getpid())});
  CHECK(peers.numbers_of({0, 1}).size() == 2);
  CHECK(peers.gone().empty());
  CHECK(peers.state_of(0) == "process " + std::to_string(::getpid()) + " runs");
  CHECK(becomes(peers, 1, "runs"));
  CHECK(peers.state_of(2) == "");  // of another machine: nothing is known
  CHECK(peers.state_of(3) == "");
  CHECK(peers.state_of(7) == "");
  ::kill(child, SIGSTOP);
  CHECK(becomes(peers, 1, "is stopped"));
  CHECK(peers.gone().empty());
  ::kill(child, SIGKILL);
  CHECK(becomes(peers, 1, "has ended"));  // though nobody has waited for it yet
  CHECK(peers.gone() == std::vector<int>{1});
  ::waitpid(child, nullptr, 0);
  CHECK(peers.gone() == std::vector<int>{1});
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("another process that has the same number now is not the one that was met") {
  const std::string own = own_process();
  const std::string other = own.substr(0, own.rfind(' ')) + " 1";
  CHECK(PeerProcesses({other}).gone() == std::vector<int>{0});
}
