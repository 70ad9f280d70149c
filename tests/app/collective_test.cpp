#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"

using foretrain::test::approx;
using foretrain::test::Finished;
using foretrain::test::run_foretrain;

namespace {

nlohmann::json rows_of(const std::vector<std::string>& arguments) {
  const Finished run = run_foretrain(arguments);
  CHECK(run.err == "");
  REQUIRE(run.status == 0);
  const auto document = nlohmann::json::parse(run.out);
  CHECK(document.at("schema") == "foretrain/collective/1");
  return document.at("rows");
}

}  // namespace

// Ring over 8 hosts at 10 Gbit/s: 2 x 7/8 x 64 MiB / 1.25 GB/s + 14 x 2 x 10 us.
TEST_CASE("collective --stepwise on a star is plain flows") {
  const auto rows = rows_of({"collective", "all_reduce", "--topology", "star", "--set", "hosts=8", "--set",
                             "bandwidth=10 Gbit/s", "--set", "latency=10us", "--bytes", "64MiB", "--stepwise",
                             "--algorithm", "ring", "--json", "-"});
  REQUIRE(rows.size() == 1);
  const double expected = 1.75 * 67108864 / 1.25e9 + 14 * 20e-6;
  CHECK(rows[0].at("time_s").get<double>() == approx(expected).epsilon(1e-3));
  CHECK(rows[0].at("busbw_Bps").get<double>() ==
        approx(1.75 * 67108864 / rows[0].at("time_s").get<double>()));
  CHECK(rows[0].at("protocol").is_null());
}

TEST_CASE("collective: a range of sizes, what the library picks for each") {
  const auto rows = rows_of({"collective", "all_reduce", "--topology", "ethernet-nodes", "--set", "nodes=2",
                             "--set", "gpus_per_node=2", "--set", "network={ bandwidth: 10 Gbit/s }",
                             "--bytes", "512KiB..64MiB*2", "--json", "-"});
  REQUIRE(rows.size() == 8);
  for (const auto& row : rows) {
    const bool is_tree = row.at("bytes") == 8 << 20 || row.at("bytes") == 64 << 20;
    CHECK(row.at("algorithm") == (is_tree ? "tree" : "ring"));
    CHECK(row.at("low_s") <= row.at("time_s"));
  }
}

TEST_CASE("collective: the shape of nccl-tests, and mistakes with their hints") {
  const Finished table = run_foretrain({"collective", "all_gather", "--topology", "hgx-h200", "--set",
                                        "nodes=1", "--bytes", "1MiB,1GiB", "--format", "nccl-tests"});
  CHECK(table.status == 0);
  CHECK(table.out.find("busbw") != std::string::npos);
  CHECK(table.out.find("1073741824") != std::string::npos);
  auto fails = [](std::vector<std::string> arguments, const char* hint) {
    arguments.insert(arguments.begin(), "collective");
    const Finished run = run_foretrain(arguments);
    CHECK(run.status == 2);
    CAPTURE(run.err);
    CHECK(run.err.find(hint) != std::string::npos);
    CHECK(run.out.empty());
  };
  fails({"all_reduse", "--topology", "star", "--bytes", "1MiB"}, "did you mean 'all_reduce'");
  fails({"all_reduce", "--topology", "starr", "--bytes", "1MiB"}, "star");
  fails({"all_reduce", "--topology", "nvlink-node", "--set", "gpus_per_node=8", "--bytes", "100"},
        "has no unit");
  fails({"all_gather", "--topology", "nvlink-node", "--set", "gpus_per_node=8", "--bytes", "1MiB",
         "--algorithm", "tree"},
        "no algorithm 'tree'");
  fails({"all_reduce", "--topology", "nvlink-node", "--set", "gpus=8", "--bytes", "1MiB"},
        "unknown key 'gpus'");
}

TEST_CASE("collective: what a family needs and is not set is as in its example") {
  for (const char* family :
       {"star", "ethernet-nodes", "leaf-spine", "fat-tree", "rail-only", "dragonfly", "ring", "wan"}) {
    CAPTURE(family);
    const Finished run = run_foretrain({"collective", "all_reduce", "--topology", family, "--bytes", "1MiB"});
    CHECK(run.status == 0);
    CHECK(run.err.find(std::string("as in ") + family + ".yaml") != std::string::npos);
  }
  const Finished set = run_foretrain(
      {"collective", "all_reduce", "--topology", "star", "--set", "bandwidth=1 Gbit/s", "--bytes", "1MiB"});
  CHECK(set.err == "foretrain: star: hosts as in star.yaml\n");
  const Finished torus =
      run_foretrain({"collective", "all_reduce", "--topology", "torus", "--bytes", "1MiB"});
  CHECK(torus.status == 0);
  CHECK(torus.err.find("as in torus-2d.yaml") != std::string::npos);
  const Finished routes = run_foretrain({"collective", "all_reduce", "--topology", "fat-tree", "--set",
                                         "network.routes=spread", "--bytes", "1MiB"});
  CHECK(routes.status == 0);
  CHECK(routes.err.find("network.bandwidth, network.latency, network.transport as in fat-tree.yaml") !=
        std::string::npos);
}

TEST_CASE("collective says what has no effect or no meaning") {
  const Finished both = run_foretrain({"collective", "all_reduce", "--topology", "star", "--bytes", "1MiB",
                                       "--stepwise", "--profile", "h200"});
  CHECK(both.status == 2);
  CHECK(both.err.find("leave --profile out") != std::string::npos);
  const Finished one = run_foretrain({"collective", "all_reduce", "--topology", "nvlink-node", "--set",
                                      "gpus_per_node=1", "--bytes", "1MiB"});
  CHECK(one.status == 0);
  CHECK(one.err.find("one rank sends nothing") != std::string::npos);
  CHECK(one.out.find("measured") == std::string::npos);
  const Finished seed =
      run_foretrain({"collective", "all_reduce", "--topology", "fat-tree", "--set", "network.routes=spread",
                     "--set", "network.route_seed=3", "--bytes", "1MiB"});
  CHECK(seed.err.find("route_seed") != std::string::npos);
}
