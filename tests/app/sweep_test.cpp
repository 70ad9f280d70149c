#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/app/subprocess.hpp"

using foretrain::test::Finished;
using foretrain::test::read_file;
using foretrain::test::run_foretrain;
using foretrain::test::RunOptions;
using foretrain::test::TemporaryFolder;
using nlohmann::json;

namespace {

const std::string scenario_text = R"(model: resnet50
profile: { steps: [[32, 71 ms], [64, 130 ms]] }
batch: { per_worker: 32 }
cluster:
  topology: ethernet-nodes
  nodes: 2
  gpus_per_node: 1
  network: { bandwidth: 10 Gbit/s, latency: 30 us }
)";

std::vector<std::string> values_of(const std::string& scenario, const std::string& axis) {
  const Finished done = run_foretrain({"sweep", scenario, "--vary", axis, "--json", "-"});
  REQUIRE(done.status == 0);
  const json sweep = json::parse(done.out);
  std::vector<std::string> values;
  for (const json& row : sweep["rows"]) values.push_back(row["set"][axis.substr(0, axis.find('='))]);
  return values;
}

using Values = std::vector<std::string>;

}  // namespace

TEST_CASE("a sweep is the grid, the last axis fastest, each row what simulate says") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text);
  const Finished done =
      run_foretrain({"sweep", scenario, "--vary", "cluster.nodes=1,2,4", "--vary",
                     "cluster.network.bandwidth=10 Gbit/s,25 Gbit/s", "--json", folder.path("s.json"),
                     "--csv", folder.path("s.csv"), "--threads", "3"});
  REQUIRE(done.status == 0);
  CHECK(done.err.empty());
  const json sweep = json::parse(read_file(folder.path("s.json")));
  CHECK(sweep["schema"] == "foretrain/result/1");
  CHECK(sweep["complete"] == true);
  CHECK(sweep["vary"] == json::array({"cluster.nodes", "cluster.network.bandwidth"}));
  REQUIRE(sweep["rows"].size() == 6);
  CHECK(sweep["rows"][3]["set"] == json{{"cluster.nodes", "2"}, {"cluster.network.bandwidth", "25 Gbit/s"}});
  CHECK(sweep["rows"][3]["workers"] == 2);
  const Finished alone =
      run_foretrain({"simulate", scenario, "--set", "cluster.network.bandwidth=25 Gbit/s", "--json", "-"});
  CHECK(json::parse(alone.out)["step"] == sweep["rows"][3]["step"]);
  CHECK(done.out.find("nodes") != std::string::npos);
  CHECK(done.out.find("25 Gbit/s") != std::string::npos);
  const std::string csv = read_file(folder.path("s.csv"));
  CHECK(csv.starts_with("cluster.nodes,cluster.network.bandwidth,schema,"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 7);

  const Finished one_thread =
      run_foretrain({"sweep", scenario, "--vary", "cluster.nodes=1,2,4", "--vary",
                     "cluster.network.bandwidth=10 Gbit/s,25 Gbit/s", "--json", "-", "--threads", "1"});
  CHECK(one_thread.out == read_file(folder.path("s.json")));
}

TEST_CASE("ranges go by factors and steps, with units") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text);
  CHECK(values_of(scenario, "cluster.nodes=2..16*2") == Values{"2", "4", "8", "16"});
  CHECK(values_of(scenario, "cluster.nodes=1..3") == Values{"1", "2", "3"});
  CHECK(values_of(scenario, "batch.per_worker=32..64+16") == Values{"32", "48", "64"});
  CHECK(values_of(scenario, "cluster.network.bandwidth=10 Gbit/s..1000 Gbit/s*10") ==
        Values{"10 Gbit/s", "100 Gbit/s", "1000 Gbit/s"});
  CHECK(values_of(scenario, "cluster.nodes=1,4..5, 8") == Values{"1", "4", "5", "8"});
}

TEST_CASE("Ctrl-C ends a long sweep within a second and leaves the rows that are finished") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text);
  RunOptions interrupted;
  interrupted.signal_after_ms = 700;
  const Finished done =
      run_foretrain({"sweep", scenario, "--vary", "cluster.network.latency=1 us..900000 us+1", "--json",
                     folder.path("s.json")},
                    interrupted);
  CHECK(done.status == 128 + 2);
  CHECK(done.seconds < 4);  // a busy machine may start the program late
  const auto files = folder.files();
  // Where not even that much was possible in time, nothing is left half written.
  if (files.size() == 2) {
    const json sweep = json::parse(read_file(folder.path("s.json")));
    CHECK(sweep["complete"] == false);
    CHECK_FALSE(sweep["rows"].empty());
  } else {
    CHECK(files == Values{"a.yaml"});
  }
}

TEST_CASE("a sweep that asks for nonsense is refused as a whole") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text);
  for (const char* axis : {"cluster.nodes", "cluster.nodes=", "=1", "cluster.nodes=1,,2",
                           "cluster.nodes=4..2", "cluster.nodes=1..4*1", "cluster.nodes=0..4*2",
                           "cluster.nodes=1..4*x", "cluster.network.bandwidth=10 Gbit/s..100 GB/s*10",
                           "cluster.nodes=1..10000000", "cluster.colour=1,2", "cluster.nodes=2,-1"}) {
    CAPTURE(axis);
    const Finished wrong =
        run_foretrain({"sweep", scenario, "--vary", axis, "--json", folder.path("s.json")});
    CHECK(wrong.status == 2);
    CHECK(wrong.out.empty());
    CHECK_FALSE(wrong.err.empty());
  }
  CHECK(run_foretrain({"sweep", scenario}).status == 2);
  CHECK(run_foretrain({"sweep", scenario, "--vary", "cluster.nodes=1", "--vary", "cluster.nodes=2"}).status ==
        2);
  CHECK(folder.files() == std::vector<std::string>{"a.yaml"});
}
