#include "sim/network/nccl_model.hpp"

#include <doctest/doctest.h>

#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

constexpr double mib = 1 << 20;

NcclSystem hopper_over_10_gigabit(int ranks, int nodes) {
  NcclSystem system;
  system.ranks = ranks;
  system.nodes = nodes;
  system.inside_gb_per_s = 18 * 20.6;
  system.nic_gb_per_s = 1.25;
  return system;
}

}  // namespace

TEST_CASE("NCCL finds 12 channels of 30 GB/s on Hopper and 12 of 20 on Ampere within a node") {
  NcclSystem system;
  system.ranks = 8;
  system.inside_gb_per_s = 18 * 20.6;
  const NcclModel hopper(system);
  CHECK(hopper.rings().channels == 12);
  CHECK(hopper.rings().inside == approx(30));
  CHECK(hopper.channels() == 24);
  system.generation = GpuGeneration::ampere;
  system.inside_gb_per_s = 12 * 20;
  const NcclModel ampere(system);
  CHECK(ampere.rings().channels == 12);
  CHECK(ampere.rings().inside == approx(20));
}

// Measured on two nodes of two H200 at 10 Gbit/s by the volume on the wire: ring from 0.5 to 4 MiB, tree at
// 8, ring at 16 and 32, tree at 64.
TEST_CASE("two nodes of two GPUs at 10 Gbit/s: the choice between ring and tree is not monotone") {
  const NcclModel model(hopper_over_10_gigabit(4, 2));
  auto picks = [&](double size) { return model.choose(CollectiveKind::all_reduce, size).algorithm; };
  for (double size : {0.5 * mib, mib, 2 * mib, 4 * mib, 16 * mib, 32 * mib}) {
    CHECK(picks(size) == CollectiveAlgorithm::ring);
  }
  CHECK(picks(8 * mib) == CollectiveAlgorithm::tree);
  CHECK(picks(64 * mib) == CollectiveAlgorithm::tree);
}

// NCCL's log on two nodes of one H200 at 10 Gbit/s: ring throughout, LL up to 32 KiB and Simple from 64.
TEST_CASE("two nodes of one GPU at 10 Gbit/s: ring throughout, LL up to 32 KiB") {
  const NcclModel model(hopper_over_10_gigabit(2, 2));
  for (double size = 1024; size <= 64 * mib; size *= 2) {
    const NcclChoice choice = model.choose(CollectiveKind::all_reduce, size);
    CHECK(choice.algorithm == CollectiveAlgorithm::ring);
    CHECK(choice.protocol == (size <= 32 * 1024 ? NcclProtocol::ll : NcclProtocol::simple));
  }
}

// 8 x H200, NCCL 2.27.7, NVLS off: 362 to 366 GB/s of bus bandwidth for the largest sizes.
TEST_CASE("large all-reduce on eight Hopper GPUs: bus bandwidth as published") {
  NcclSystem system;
  system.ranks = 8;
  system.inside_gb_per_s = 18 * 20.6;
  const NcclModel model(system);
  const double size = 17179869184.0;
  const NcclChoice choice = model.choose(CollectiveKind::all_reduce, size);
  CHECK(choice.algorithm == CollectiveAlgorithm::ring);
  CHECK(bus_factor(CollectiveKind::all_reduce, 8) * size / choice.seconds == approx(363e9).epsilon(0.02));
}

TEST_CASE("protocols by name") {
  CHECK(nccl_protocol("SIMPLE") == NcclProtocol::simple);
  CHECK(nccl_protocol("LL128") == NcclProtocol::ll128);
  CHECK(!nccl_protocol("auto"));
}

// Two nodes of one H100 over TCP: LL of 16,384 bytes and more takes 25 us longer than of less (profiles/
// two-nodes-tcp-*), which is where NCCL begins to use its second channel.
TEST_CASE("a size runs on as many channels as its bytes keep busy") {
  const NcclModel model(hopper_over_10_gigabit(2, 2));
  REQUIRE(model.channels() == 2);
  auto channels = [&](NcclProtocol protocol, double bytes) {
    return model.channels_of(CollectiveAlgorithm::ring, protocol, bytes);
  };
  CHECK(channels(NcclProtocol::ll, 1) == 1);
  CHECK(channels(NcclProtocol::ll, 16383) == 1);
  CHECK(channels(NcclProtocol::ll, 16384) == 2);
  CHECK(channels(NcclProtocol::simple, 16384) == 1);
  CHECK(channels(NcclProtocol::simple, 32768) == 2);
  CHECK(channels(NcclProtocol::simple, 1e12) == 2);
}

// NCCL_P2P_LL_THRESHOLD of 16 KiB a channel, two channels a link: 32 of 18 links (the next lower power of
// two).
TEST_CASE("messages to one rank go by LL while they are small, and by Simple between nodes") {
  NcclSystem system;
  system.ranks = 4;
  system.inside_gb_per_s = 18 * 20.6;
  const NcclModel node(system);
  const auto all_to_all = CollectiveKind::all_to_all, send = CollectiveKind::send_recv;
  CHECK(node.choose(send, 512 * 1024).protocol == NcclProtocol::ll);
  CHECK(node.choose(send, 512 * 1024 + 16).protocol == NcclProtocol::simple);
  CHECK(node.choose(all_to_all, 4 * 512 * 1024).protocol == NcclProtocol::ll);  // a quarter to each
  CHECK(node.choose(all_to_all, 4 * 512 * 1024 + 64).protocol == NcclProtocol::simple);
  CHECK(node.choose(send, 1024).seconds == approx(7.2e-6).epsilon(0.01));
  system.nodes = 2;
  system.nic_gb_per_s = 12.5;
  CHECK(NcclModel(system).choose(send, 1024).protocol == NcclProtocol::simple);
}
