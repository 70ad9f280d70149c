#include "execute/network_interface.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/app/subprocess.hpp"

using namespace foretrain;

TEST_CASE("NCCL_SOCKET_IFNAME is held against the interfaces that are there, by NCCL's rules") {
  const test::TemporaryFolder folder;
  for (const char* name : {"eth0", "eth10", "lo"}) std::filesystem::create_directory(folder.path(name));
  const auto message = [&](const char* value) -> std::string {
    try {
      check_network_interface([value](const char*) { return value; }, 3, folder.path(""));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      return error.what();
    }
    return "";
  };
  for (const char* good : {"eth", "eth1", "=eth0", "ib,lo", "^eth", "=eth0:1", "", "^=lo"}) {
    CAPTURE(good);
    CHECK(message(good) == "");
  }
  CHECK(message(nullptr) == "");
  CHECK(message("eth2") ==
        "rank 3: NCCL_SOCKET_IFNAME=eth2 fits no network interface of this machine; there are eth0, eth10, "
        "lo, did you mean 'eth0'?");
  for (const char* wrong : {"=eth", "ib0,ib1", "^eth,lo"}) CHECK(message(wrong) != "");
  check_network_interface([](const char*) { return "eth2"; }, 0, folder.path("not there"));  // not told
}
