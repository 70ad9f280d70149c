#include "sim/network/collective_cost.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/input/profile_json.hpp"
#include "sim/network/collective_measurements.hpp"
#include "sim/network/collectives.hpp"
#include "sim/network/families.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/topologies.hpp"

using namespace foretrain;

namespace {

using test::all_ranks;
using test::star;

Topology nodes_of(int nodes, int gpus, double gigabits) {
  EthernetNodes family;
  family.nodes = nodes;
  family.gpus_per_node = gpus;
  family.network = {Rate::bits_per_second(gigabits * 1e9), Time::microseconds(15), Transport::tcp, {}};
  return make_topology(family);
}

double seconds(const Topology& topology, CollectiveKind kind, double bytes,
               const CollectiveChoice& choice = {}) {
  const CollectiveModel model(topology, nullptr);
  const auto size = Bytes(static_cast<std::int64_t>(bytes));
  return model.cost(kind, size, Precision::fp32, all_ranks(topology), choice).time.in_seconds();
}

CollectiveChoice plain(CollectiveAlgorithm algorithm) {
  return {algorithm, {}, false};
}

CollectiveEntry entry(int ranks, double bytes, double time) {
  CollectiveEntry e;
  e.kind = "all_reduce";
  e.ranks = ranks;
  e.network = "nvlink";
  e.algorithm = e.protocol = "auto";
  e.chosen_algorithm = "RING";
  e.chosen_protocol = "SIMPLE";
  e.element = "fp32";
  e.bytes = static_cast<std::int64_t>(bytes);
  e.time = {time, time * 0.99, time * 1.01, 0, 20};
  return e;
}

}  // namespace

// Ring all-reduce of S over n hosts with rate B and latency a of a link, two of them from host to host:
// 2(n-1)/n S/B + 2(n-1) 2a; all-gather and reduce-scatter half of it.
TEST_CASE("plain ring collectives on a star keep to the closed forms") {
  for (int n : {2, 3, 8, 64}) {
    const Topology topology = star(n, 10, 5);
    const double size = 64e6, rate = 1.25e9, hop = 10e-6;
    const double all_reduce = 2.0 * (n - 1) / n * size / rate + 2 * (n - 1) * hop;
    CHECK(seconds(topology, CollectiveKind::all_reduce, size, plain(CollectiveAlgorithm::ring)) ==
          test::approx(all_reduce).epsilon(1e-3));
    for (CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
      CHECK(seconds(topology, kind, size, plain(CollectiveAlgorithm::ring)) ==
            test::approx(all_reduce / 2).epsilon(1e-3));
    }
  }
}

// A tree of n hosts: its deepest node's way up and down, two links a step; the busiest host sends min(2, n/2)
// S.
TEST_CASE("plain trees on a star keep to the closed form") {
  const std::pair<int, int> depths[] = {{2, 1}, {3, 2}, {8, 3}, {64, 6}};
  for (const auto& each : depths) {
    const double n = each.first, deepest = each.second, hop = 10e-6, rate = 1.25e9;
    const Topology topology = star(each.first, 10, 5);
    for (const double size : {4e3, 64e6}) {
      CHECK(seconds(topology, CollectiveKind::all_reduce, size, plain(CollectiveAlgorithm::tree)) ==
            test::approx(std::min(2.0, n / 2) * size / rate + 2 * deepest * hop).epsilon(1e-3));
    }
  }
}

// What is sent at once waits for the way once: all-to-all (n-1)/n S/B + 2a, to the next rank S/B + 2a.
TEST_CASE("plain direct collectives on a star keep to the closed forms") {
  const double rate = 1.25e9, hop = 10e-6;
  for (int n : {2, 3, 8}) {
    const Topology topology = star(n, 10, 5);
    for (const double size : {4e3, 64e6}) {
      CHECK(seconds(topology, CollectiveKind::all_to_all, size, plain(CollectiveAlgorithm::direct)) ==
            test::approx((n - 1.0) / n * size / rate + hop).epsilon(1e-3));
      CHECK(seconds(topology, CollectiveKind::send_recv, size, plain(CollectiveAlgorithm::direct)) ==
            test::approx(size / rate + hop).epsilon(1e-3));
    }
  }
}

// Halving and doubling and Gloo's bcube send what the ring does, over 2^k hosts in 2k rounds; servers on the
// hosts in two.
TEST_CASE("plain collectives by rounds on a star wait for the way once a round") {
  const double rate = 1.25e9, hop = 10e-6;
  for (int n : {2, 4, 16}) {
    const Topology topology = star(n, 10, 5);
    const double steps = 2 * std::log2(n);
    const std::pair<CollectiveAlgorithm, double> rounds[] = {{CollectiveAlgorithm::halving_doubling, steps},
                                                             {CollectiveAlgorithm::bcube, steps},
                                                             {CollectiveAlgorithm::parameter_server, 2}};
    for (const auto& each : rounds) {
      CAPTURE(std::string(name_of(each.first)));
      for (const double size : {4e3, 64e6}) {
        CHECK(seconds(topology, CollectiveKind::all_reduce, size, plain(each.first)) ==
              test::approx(2.0 * (n - 1) / n * size / rate + each.second * hop).epsilon(1e-3));
      }
    }
  }
}

// A ring meets the way between nodes 2(nodes - 1) times, however many GPUs a node has.
TEST_CASE("plain rings over nodes of several GPUs wait for the ways between nodes alone") {
  const double way =
      seconds(nodes_of(2, 1, 10), CollectiveKind::all_reduce, 4, plain(CollectiveAlgorithm::ring)) / 2;
  CHECK(way >= 15e-6);
  for (int nodes : {2, 4, 7}) {
    for (int gpus : {1, 2, 8}) {
      CHECK(seconds(nodes_of(nodes, gpus, 10), CollectiveKind::all_reduce, 4,
                    plain(CollectiveAlgorithm::ring)) == test::approx(2 * (nodes - 1) * way).epsilon(0.01));
    }
  }
}

// As many rings as a node has NICs share the bytes: each NIC sends 2(n-1)/n S / NICs.
TEST_CASE("rings share the bytes out among the NICs of a node") {
  for (int nics : {1, 2, 4}) {
    EthernetNodes family;
    family.nodes = 3;
    family.gpus_per_node = 4;
    family.nics = nics;
    family.network = {Rate::bits_per_second(10e9), Time::microseconds(15), Transport::tcp, {}};
    const Topology topology = make_topology(family);
    const CollectiveModel model(topology, nullptr);
    const CollectiveCost cost =
        model.cost(CollectiveKind::all_reduce, Bytes(1'200'000), Precision::fp32, all_ranks(topology),
                   {CollectiveAlgorithm::ring, NcclProtocol::simple, true});
    double sent = 0;
    for (const WireUse& use : cost.wire)
      if (use.link_class == "nic") sent = use.bytes;
    CHECK(sent == test::approx(2.0 * 11 / 12 * 1.2e6 / nics));
  }
}

TEST_CASE("20 MB between two hosts at 1 Gbit/s take 160 ms") {
  CHECK(seconds(star(2, 1, 0), CollectiveKind::all_reduce, 20e6, plain(CollectiveAlgorithm::ring)) ==
        test::approx(0.160).epsilon(1e-3));
}

TEST_CASE("1,250 MiB at 10 Gbit/s over two nodes of one GPU: not under 1.0486 s, ring or tree") {
  const double size = 1250.0 * (1 << 20);
  for (CollectiveAlgorithm algorithm : {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree}) {
    CHECK(seconds(star(2, 10, 0), CollectiveKind::all_reduce, size, plain(algorithm)) ==
          test::approx(1.048576).epsilon(1e-6));
    const double time = seconds(nodes_of(2, 1, 10), CollectiveKind::all_reduce, size, {algorithm, {}, true});
    CHECK(time >= 1.0486);
    CHECK(time < 1.15);
  }
}

// Per node and direction a ring over n ranks sends 2(n-1)/n S; a tree 1.0 S at two nodes, 1.5 S at three, 2.0
// S from four on.
TEST_CASE("bytes on the wire of a node") {
  auto nic_bytes = [](int nodes, int gpus, CollectiveAlgorithm algorithm) {
    const Topology topology = nodes_of(nodes, gpus, 10);
    const CollectiveModel model(topology, nullptr);
    const CollectiveCost cost = model.cost(CollectiveKind::all_reduce, Bytes(1'000'000), Precision::fp32,
                                           all_ranks(topology), {algorithm, NcclProtocol::simple, true});
    for (const WireUse& use : cost.wire) {
      if (use.link_class == "nic") return use.bytes / 1e6;
    }
    return 0.0;
  };
  for (int nodes : {2, 3, 4, 8, 13}) {
    for (int gpus : {1, 4}) {
      const double n = nodes * gpus;
      CHECK(nic_bytes(nodes, gpus, CollectiveAlgorithm::ring) == test::approx(2 * (n - 1) / n));
      CHECK(nic_bytes(nodes, gpus, CollectiveAlgorithm::tree) == test::approx(std::min(2.0, nodes * 0.5)));
    }
  }
}

// Node i hangs below i with its lowest bit cleared and the next one set: of nine 1 - 2 - 4 - 8 - 0.
TEST_CASE("a tree is as deep as its deepest node, which is not always the last") {
  const std::vector<std::pair<int, int>> known{{1, 0}, {2, 1}, {3, 2},  {4, 2}, {5, 3},
                                               {8, 3}, {9, 4}, {16, 4}, {17, 5}};
  for (const auto& each : known) {
    const auto& nodes = each.first;
    const auto& deepest = each.second;
    CAPTURE(nodes);
    CHECK(depth(binary_tree(nodes)) == deepest);
  }
}

TEST_CASE("between nodes more bandwidth is never slower for a fixed algorithm and protocol") {
  RandomStream random(1, {7});
  for (int round = 0; round < 50; ++round) {
    const int nodes = 2 + static_cast<int>(random.next() % 6), gpus = 1 + static_cast<int>(random.next() % 4);
    const double size = std::exp(random.uniform() * 18 + 3);
    for (CollectiveAlgorithm algorithm : {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree}) {
      for (NcclProtocol protocol : {NcclProtocol::ll, NcclProtocol::simple}) {
        double before = 1e9;
        for (double gigabits : {1, 10, 25, 40, 100, 400}) {
          const double time = seconds(nodes_of(nodes, gpus, gigabits), CollectiveKind::all_reduce, size,
                                      {algorithm, protocol, true});
          CHECK(time <= before);
          before = time;
        }
      }
    }
  }
}

TEST_CASE("a measured curve is read between its points, scaled beyond its ends, and says so") {
  Profile profile;
  profile.runs.emplace_back();
  profile.runs[0].machine.compute_capability = "9.0";
  for (double size : {1e6, 4e6, 16e6, 64e6}) {  // 20 us + S / 200 GB/s
    profile.collectives.push_back(entry(4, size, 20e-6 + size / 200e9));
  }
  const Topology topology = make_topology(NvlinkNode{8, 1, nvlink_of_hopper(), {}});
  const CollectiveModel model(topology, &profile);
  const std::vector<int> four = {0, 1, 2, 3};
  auto ask = [&](double size, std::span<const int> ranks) {
    return model.cost(CollectiveKind::all_reduce, Bytes(static_cast<std::int64_t>(size)), Precision::fp32,
                      ranks);
  };
  const CollectiveCost inside = ask(10e6, four);
  CHECK(inside.time.in_seconds() == test::approx(70e-6).epsilon(1e-6));
  CHECK(inside.origin == Origin::measured);
  CHECK(!inside.extrapolated);
  CHECK(inside.algorithm == "ring");
  CHECK(inside.protocol == "Simple");
  const CollectiveCost above = ask(256e6, four);
  CHECK(above.extrapolated);
  CHECK(above.origin == Origin::fitted);
  CHECK(above.range == "1.00 MB to 64.0 MB");
  CHECK(above.time.in_seconds() == test::approx(1300e-6).epsilon(0.02));
  // Eight ranks were not measured: what is sent grows from 1.5 S to 1.75 S.
  const CollectiveCost eight = ask(64e6, all_ranks(topology));
  CHECK(eight.extrapolated);
  CHECK(eight.origin == Origin::fitted);
  CHECK(eight.time > ask(64e6, four).time);
  CHECK(eight.relative_uncertainty > inside.relative_uncertainty);
}

TEST_CASE("one rank costs nothing; a rank that does not exist is an error") {
  const Topology topology = star(3, 10, 5);
  const CollectiveModel model(topology, nullptr);
  const std::vector<int> one = {1}, wrong = {0, 3};
  CHECK(model.cost(CollectiveKind::all_reduce, Bytes(1000), Precision::fp32, one).time == Time());
  CHECK_THROWS_WITH_AS(model.cost(CollectiveKind::all_reduce, Bytes(1000), Precision::fp32, wrong),
                       doctest::Contains("rank 3 does not exist"), Error);
}

// The profile logs no choice: 64 KiB and more went by Simple at 10 Gbit/s, where the library would take LL of
// up to 256 KiB at 100. Carried by LL's growth they had become faster than 64 KiB.
TEST_CASE("times carried to another line rate are of the choice that was made where they were measured") {
  Diagnostics diagnostics;
  const auto profile =
      read_profile(FORETRAIN_SOURCE_DIR "/profiles/two-nodes-tcp-10-gbit.json.gz", diagnostics);
  REQUIRE(profile);
  for (const double gigabits : {10.0, 25.0, 100.0, 400.0}) {
    CAPTURE(gigabits);
    EthernetNodes family;
    family.nodes = 2;
    family.gpus_per_node = 1;
    const Rate rate = Rate::bits_per_second(gigabits * 1e9);
    family.network = {rate, Time::microseconds(15), Transport::tcp, {}};
    family.network.reported = rate;
    const Topology topology = make_topology(family);
    const CollectiveModel model(topology, &*profile);
    double before = 0;
    for (std::int64_t bytes = 64 << 10; bytes <= 64 << 20; bytes *= 2) {
      CAPTURE(bytes);
      const double time =
          model.cost(CollectiveKind::all_reduce, Bytes(bytes), Precision::fp32, all_ranks(topology))
              .time.in_seconds();
      CHECK(time > 0.8 * before);  // single sizes of the measurement stand out by as much
      CHECK(time > static_cast<double>(bytes) / rate.bytes_per_second() * 0.75);
      before = time;
    }
  }
}

// Two nodes of one GPU at 25 Gbit/s: threads that only send or only receive reach the line's 2.94 GB/s, those
// that do both stay at 2 GB/s each way. On nodes of two GPUs a ring enters by one thread and leaves by
// another.
TEST_CASE("where the host's copies are the limit, more GPUs a node share them out") {
  Profile profile;
  profile.runs.emplace_back();
  profile.runs[0].machine.compute_capability = "9.0";
  const auto add = [&profile](const char* kind, double rate) {
    for (double size : {16e6, 32e6, 64e6, 128e6, 256e6}) {
      CollectiveEntry e = entry(2, size, 100e-6 + size / rate);
      e.kind = kind;
      e.nodes = 2;
      e.network = "ethernet 25 Gbit/s tcp";
      e.line_rate = 25e9 / 8;
      profile.collectives.push_back(e);
    }
  };
  const auto rate = [&profile](int gpus, double gigabits, CollectiveAlgorithm algorithm) {
    const Topology topology = nodes_of(2, gpus, gigabits);
    const CollectiveModel model(topology, &profile);
    const CollectiveCost cost = model.cost(CollectiveKind::all_reduce, Bytes(256'000'000), Precision::fp32,
                                           all_ranks(topology), {algorithm, {}});
    return 256e6 * node_share(CollectiveKind::all_reduce, algorithm, 2 * gpus, 2) / cost.time.in_seconds() *
           1e-9;
  };
  const auto ring = CollectiveAlgorithm::ring, tree = CollectiveAlgorithm::tree;
  add("all_reduce", 2e9);
  SUBCASE("what both directions show alone may be the network") {
    CHECK(rate(2, 25, ring) == test::approx(2).epsilon(0.03));
    CHECK(rate(1, 50, ring) == test::approx(4).epsilon(0.05));
  }
  SUBCASE("one direction at line rate shows that it is the host") {
    add("broadcast", 2.94e9);
    CHECK(rate(1, 25, ring) == test::approx(2).epsilon(0.03));
    CHECK(rate(2, 25, ring) == test::approx(2.94).epsilon(0.03));
    CHECK(rate(2, 25, tree) == test::approx(2).epsilon(0.03));
    CHECK(rate(1, 50, ring) == test::approx(2).epsilon(0.03));
    CHECK(rate(2, 50, ring) == test::approx(4).epsilon(0.03));
    CHECK(rate(4, 100, ring) == test::approx(4).epsilon(0.03));
  }
  SUBCASE("at the line rate nothing is known of the host") {
    profile.collectives.clear();
    add("all_reduce", 2.9e9);
    add("broadcast", 2.94e9);
    CHECK(rate(1, 50, ring) == test::approx(5.8).epsilon(0.05));
  }
}

// 45 us of two steps between two nodes and 173 us of two, what Simple starts with: six around four.
TEST_CASE("between nodes small messages take a step's latency for each step, large ones the wire's time") {
  Profile profile;
  profile.runs.emplace_back();
  profile.runs[0].machine.compute_capability = "9.0";
  const double line = 1.25e9, usable = line * 0.94;
  const auto add = [&](double bytes, const char* protocol, double time) {
    CollectiveEntry e = entry(2, bytes, time);
    e.nodes = 2;
    e.network = "ethernet 10 Gbit/s tcp";
    e.line_rate = line;
    e.chosen_protocol = protocol;
    profile.collectives.push_back(e);
  };
  for (double bytes : {256., 1024., 4096., 8192.}) add(bytes, "LL", 45e-6 + 2 * bytes / usable);
  for (double bytes : {65536., 131072., 4e6, 16e6, 32e6, 64e6})
    add(bytes, "SIMPLE", std::hypot(173e-6, bytes / usable));
  const Topology topology = nodes_of(4, 1, 10);
  const CollectiveModel model(topology, &profile);
  const auto time = [&](double bytes, CollectiveAlgorithm algorithm, NcclProtocol protocol) {
    return model
        .cost(CollectiveKind::all_reduce, Bytes(static_cast<std::int64_t>(bytes)), Precision::fp32,
              all_ranks(topology), {algorithm, protocol})
        .time.in_seconds();
  };
  const auto ring = CollectiveAlgorithm::ring;
  CHECK(time(1024, ring, NcclProtocol::ll) ==
        test::approx(3 * 45e-6 + 1.5 * 2 * 1024 / usable).epsilon(0.02));
  CHECK(time(65536, ring, NcclProtocol::simple) == test::approx(3 * 173e-6).epsilon(0.05));
  CHECK(time(32e6, ring, NcclProtocol::simple) == test::approx(1.5 * 32e6 / usable).epsilon(0.02));
  // A tree of four nodes takes four such steps, and what NCCL counts once.
  const double tree = time(1024, CollectiveAlgorithm::tree, NcclProtocol::ll);
  CHECK(tree > 4 * 22.5e-6);
  CHECK(tree < 4 * 22.5e-6 + 12e-6);
}

// Two nodes at 25 Gbit/s: 60 us of two steps, and nine tenths of the line.
TEST_CASE("a measured network stands for a plain one of its name: slower wires and longer ways count") {
  Profile profile;
  profile.runs.emplace_back();
  profile.runs[0].machine.compute_capability = "9.0";
  profile.runs[0].machine.link = "NV18";
  const double line = 25e9 / 8;
  for (double bytes : {65536., 262144., 1e6, 4e6, 16e6, 64e6, 256e6}) {
    CollectiveEntry e = entry(2, bytes, std::hypot(60e-6, bytes / (0.9 * line)));
    profile.collectives.push_back(e);  // "nvlink", within a node
    e.nodes = 2;
    e.network = "ethernet 25 Gbit/s tcp";
    e.line_rate = line;
    profile.collectives.push_back(e);
  }
  const auto cost = [&profile](const Topology& topology, double bytes, const CollectiveChoice& choice = {}) {
    return CollectiveModel(topology, &profile)
        .cost(CollectiveKind::all_reduce, Bytes(static_cast<std::int64_t>(bytes)), Precision::fp32,
              all_ranks(topology), choice);
  };
  const auto nodes = [](double gigabits, double microseconds) {
    EthernetNodes family;
    family.nodes = 2;
    family.network = {
        Rate::bits_per_second(gigabits * 1e9), Time::microseconds(microseconds), Transport::tcp, {}};
    return make_topology(family);
  };
  const auto seconds_at = [&](double gigabits, double bytes) {
    // NCCL itself changes its choice with the rate, not always for the better.
    return cost(nodes(gigabits, 15), bytes, {CollectiveAlgorithm::ring, NcclProtocol::simple})
        .time.in_seconds();
  };
  SUBCASE("as it was measured") {
    const CollectiveCost plain = cost(nodes(25, 15), 64e6);
    CHECK(!plain.extrapolated);
    CHECK(plain.time.in_seconds() == test::approx(64e6 / (0.9 * line)).epsilon(0.01));
  }
  SUBCASE("two ways of 5 ms a step") {
    const CollectiveCost far = cost(nodes(25, 5000), 1e6);
    CHECK(far.time.in_seconds() > 2 * 10e-3);
    CHECK(far.extrapolated);
  }
  SUBCASE("a link that is slower than its network's name, or taken by others") {
    Topology slow = nodes(25, 15);
    for (Link& link : slow.links)
      if (link.kind == LinkKind::network) link.rate = Rate::bits_per_second(1e9);
    CHECK(cost(slow, 64e6).time.in_seconds() > 64e6 / 125e6);
    Topology busy = nodes(25, 15);
    for (Link& link : busy.links)
      if (link.kind == LinkKind::network) link.background = Rate::bits_per_second(20e9);
    CHECK(cost(busy, 64e6).time.in_seconds() > 3 * cost(nodes(25, 15), 64e6).time.in_seconds());
  }
  SUBCASE("from one rate to the next it is not slower, and changes little where the rate does") {
    for (double bytes : {65536., 1e6, 64e6}) {
      CHECK(seconds_at(25.01, bytes) == test::approx(seconds_at(25, bytes)).epsilon(0.01));
      CHECK(seconds_at(24.99, bytes) == test::approx(seconds_at(25, bytes)).epsilon(0.01));
      double before = seconds_at(5, bytes);
      for (double gigabits : {10., 16., 20., 24., 24.9, 25., 25.1, 26., 40., 100., 400.}) {
        CAPTURE(bytes);
        CAPTURE(gigabits);
        const double now = seconds_at(gigabits, bytes);
        CHECK(now <= before * 1.001);
        before = now;
      }
    }
  }
  SUBCASE("links within the node other than those that were measured") {
    const auto inside = [&](InsideDescription links) {
      return cost(make_topology(NvlinkNode{2, 1, links, {}}), 64e6);
    };
    CHECK(!inside(nvlink_of_hopper()).extrapolated);
    CHECK(inside(pcie_of_generation(4)).origin != Origin::measured);
    InsideDescription slow = nvlink_of_hopper();
    slow.bandwidth = Rate(1e9);
    CHECK(inside(slow).time.in_seconds() > 64e6 / 1e9);
    InsideDescription fast = nvlink_of_hopper();
    fast.bandwidth = Rate(900e9);
    CHECK(inside(fast).extrapolated);
    CHECK(inside(fast).time < inside(nvlink_of_hopper()).time);
  }
}

// 256 B alone, as a calibration leaves that ran out of time: 379 kB were 1,480 times as long.
TEST_CASE("a single measured size tells of no other") {
  const Topology topology = make_topology(OneNode{.workers = 2});
  Profile profile;
  profile.device = "cpu";
  const auto cost = [&](const Profile& of, std::int64_t bytes) {
    const CollectiveModel model(topology, &of);
    return model.cost(CollectiveKind::all_reduce, Bytes(bytes), Precision::fp32, all_ranks(topology));
  };
  const CollectiveCost unmeasured = cost(profile, 379'000);
  CollectiveEntry small = entry(2, 256, 0.012);
  small.network = "pcie";
  profile.collectives = {small};
  CHECK(cost(profile, 256).time.in_seconds() == test::approx(0.012));
  CHECK(cost(profile, 379'000).time == unmeasured.time);
  CHECK(cost(profile, 379'000).extrapolated);
  CollectiveEntry large = entry(2, 1e6, 0.03);
  large.network = "pcie";
  profile.collectives.push_back(large);
  const double between = cost(profile, 379'000).time.in_seconds();
  CHECK(between > 0.012);
  CHECK(between < 0.03);
}
