#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/base/parse_units.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"

using foretrain::test::approx;
using foretrain::test::Finished;
using foretrain::test::read_file;
using foretrain::test::run_command;
using foretrain::test::run_foretrain;
using foretrain::test::RunOptions;
using foretrain::test::TemporaryFolder;
using nlohmann::json;
using Names = std::vector<std::string>;

namespace {

// Two nodes over 10 Gbit/s, from whole steps of one device: needs no profile that ships.
const std::string two_nodes = R"(# Does a second node pay?
model: resnet50
profile: { steps: [[32, 71 ms], [64, 130 ms]] }
batch: { per_worker: 32 }
cluster:
  topology: ethernet-nodes
  nodes: 2
  gpus_per_node: 1
  network: { bandwidth: 10 Gbit/s, latency: 30 us }
)";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("simulate prints a table on standard output and nothing else anywhere") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("two-nodes.yaml", two_nodes);
  const Finished done = run_foretrain({"simulate", scenario});
  CHECK(done.status == 0);
  CHECK(done.err.empty());
  CHECK(has(done.out, "Does a second node pay?"));
  CHECK(has(done.out, "images/s"));
  CHECK(has(done.out, "validated"));
  CHECK_FALSE(has(done.out, "\x1b["));  // no colour where there is no terminal
  CHECK(folder.files() == Names{"two-nodes.yaml"});
}

TEST_CASE("what leaves every range, or no way leads to, is bad input of the scenario's file") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("two.yaml", two_nodes);
  struct Bad {
    std::vector<std::string> settings;
    std::string said;
  };
  const Bad all[] = {
      {{"cluster.network.bandwidth=1 bit/s"}, "leaves the range of 106 days"},
      {{"cluster.links=[{name: 'node0.nic*', failed: true}]"}, "no way from 'node0.gpu0'"},
      {{"cluster.slow_gpus=[{from: 0, factor: 1e12}]"}, "it must be at most 1000000"},
      {{"dataset.samples=1000000000000", "job.epochs=1000000000"}, "longer than what can be counted"},
      {{"dataset.samples=1000000", "job.epochs=1000000000"}, "leaves the range of 292 years"},
      {{"strategy.fusion=packs", "strategy.repack=100000"}, "it must be at most 4096"},
  };
  for (const Bad& bad : all) {
    std::vector<std::string> arguments = {"simulate", scenario, "--json", folder.path("r.json")};
    for (const std::string& setting : bad.settings) {
      arguments.emplace_back("--set");
      arguments.push_back(setting);
    }
    const Finished done = run_foretrain(arguments);
    CAPTURE(bad.said);
    CHECK(done.status == 2);
    CHECK_MESSAGE(has(done.err, bad.said), done.err);
    CHECK_MESSAGE((has(done.err, scenario + ":1:1: ") || has(done.err, "--set ")), done.err);
    CHECK(folder.files() == Names{"two.yaml"});
  }
}

TEST_CASE("the trace of many ranks shows the first of them, and says so") {
  const TemporaryFolder folder;
  const Finished done = run_foretrain({"simulate", folder.write("two.yaml", two_nodes), "--set",
                                       "cluster.nodes=1500", "--trace", folder.path("t.json")});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK_MESSAGE(has(done.out + done.err, "the first 1024 of 1500 ranks"), done.out);
  const json trace = json::parse(read_file(folder.path("t.json")));
  int ranks = 0;
  for (const json& event : trace["traceEvents"]) ranks += event["name"] == "process_name";
  CHECK(ranks >= 1024);
  CHECK(ranks <= 1024 + 4);
}

TEST_CASE("-v tells on standard error how fast events were simulated") {
  const TemporaryFolder folder;
  const Finished loud = run_foretrain({"simulate", folder.write("two.yaml", two_nodes), "-v"});
  CHECK(loud.status == 0);
  CHECK(has(loud.err, "million a second on one core"));
  CHECK(has(loud.out, "Not on the critical path: "));
}

TEST_CASE("JSON on standard output is all that stands there") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("two-nodes.yaml", two_nodes);
  const Finished done = run_foretrain({"simulate", scenario, "--json", "-"});
  REQUIRE(done.status == 0);
  const json result = json::parse(done.out);
  CHECK(result["schema"] == "foretrain/result/1");
  CHECK(result["scenario"] == "two-nodes");
  CHECK(result["workers"] == 2);
  CHECK(result["batch"]["global"] == 64);
  double sum = 0;
  for (const auto& [part, seconds] : result["step"]["breakdown_s"].items()) sum += seconds.get<double>();
  CHECK(sum == approx(result["step"]["time_s"].get<double>()).epsilon(1e-9));
  for (const auto& link : result["links"]) CHECK(link["utilisation"].get<double>() <= 1);
}

TEST_CASE("table, JSON and CSV of one run say the same") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("two-nodes.yaml", two_nodes);
  const Finished done = run_foretrain(
      {"simulate", scenario, "--json", folder.path("r.json"), "--csv", folder.path("r.csv"), "--seed", "3"});
  REQUIRE(done.status == 0);
  const json result = json::parse(read_file(folder.path("r.json")));
  CHECK(result["seed"] == 3);
  std::istringstream csv(read_file(folder.path("r.csv")));
  std::string header, row;
  std::getline(csv, header);
  std::getline(csv, row);
  CHECK(has(header, "step.time_s"));
  CHECK(has(row, result["step"]["time_s"].dump()));
  CHECK(has(row, result["throughput"]["units_per_s"].dump()));
  CHECK(has(done.out, foretrain::format_time(result["step"]["time_s"].get<double>())));
}

TEST_CASE("several scenarios are one table and one array; standard input is a scenario too") {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.yaml", two_nodes);
  RunOptions options;
  options.input = two_nodes;
  const Finished done = run_foretrain({"simulate", a, "-", "--json", folder.path("r.json")}, options);
  REQUIRE(done.status == 0);
  const json results = json::parse(read_file(folder.path("r.json")));
  REQUIRE(results.is_array());
  REQUIRE(results.size() == 2);
  CHECK(results[0]["step"] == results[1]["step"]);
  CHECK(run_foretrain({"simulate", "-", "-"}, options).status == 2);
}

TEST_CASE("settings and profiles on the command line override the file") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", two_nodes);
  auto step = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"simulate", scenario, "--json", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished done = run_foretrain(arguments);
    REQUIRE(done.status == 0);
    return json::parse(done.out)["step"]["time_s"].get<double>();
  };
  CHECK(step({"--set", "cluster.network.bandwidth=1 Gbit/s"}) > step({}));
  CHECK(step({"--set", "batch.per_worker=64", "--set", "cluster.network.bandwidth=100 Gbit/s"}) > 0.129);
}

TEST_CASE("bad input is status 2, named with its place, and nothing is written") {
  const TemporaryFolder folder;
  const std::string bad = folder.write("bad.yaml", two_nodes + "colour: blue\nprecision: fp31\n");
  const Finished done =
      run_foretrain({"simulate", bad, folder.path("none.yaml"), "--json", folder.path("r.json")});
  CHECK(done.status == 2);
  CHECK(done.out.empty());
  CHECK(has(done.err, "bad.yaml:10:1: "));
  CHECK(has(done.err, "bad.yaml:11:"));
  CHECK(has(done.err, "none.yaml"));
  CHECK(std::count(done.err.begin(), done.err.end(), '\n') == 3);
  CHECK(folder.files() == Names{"bad.yaml"});

  const std::string good = folder.write("good.yaml", two_nodes);
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--set", "colour=blue"},
                                             {"--set", "nonsense"},
                                             {"--seed", "-1"},
                                             {"--seed", "1.5"},
                                             {"--profile", "no-such-profile"},
                                             {"--profile", folder.path("no-such.json")},
                                             {"--json"},
                                             {"--jsn", "-"},
                                             {"-q", "-v"},
                                             {"--json", "-", "--csv", "-"},
                                             {"--csv", folder.path("x"), "--trace", folder.path("x")},
                                             {"--json", folder.path("missing/r.json")},
                                             {good, "--trace", folder.path("t.json")}}) {
    std::vector<std::string> arguments{"simulate", good};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CAPTURE(more[0]);
    const Finished wrong = run_foretrain(arguments);
    CHECK(wrong.status == 2);
    CHECK(wrong.out.empty());
    CHECK_FALSE(wrong.err.empty());
    if (more[0] == "--set" || more[0] == "--profile") CHECK(has(wrong.err, more[0] + ' ' + more[1] + ": "));
  }
  CHECK(run_foretrain({"simulate"}).status == 2);
  CHECK(folder.files() == Names{"bad.yaml", "good.yaml"});
}

TEST_CASE("the same inputs and seed give the same bytes") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", two_nodes);
  for (const char* run : {"1", "2"}) {
    const std::string name = folder.path(run);
    REQUIRE(run_foretrain({"simulate", scenario, "--json", name + ".json", "--csv", name + ".csv", "--trace",
                           name + ".trace.json.gz"})
                .status == 0);
  }
  for (const char* ending : {".json", ".csv", ".trace.json.gz"}) {
    CAPTURE(ending);
    const std::string first = read_file(folder.path(std::string("1") + ending));
    CHECK_FALSE(first.empty());
    CHECK(first == read_file(folder.path(std::string("2") + ending)));
  }
}

TEST_CASE("a trace holds both ranks, and no slices of a track overlap in part") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", two_nodes);
  REQUIRE(run_foretrain({"simulate", scenario, "--trace", folder.path("t.json")}).status == 0);
  const json trace = json::parse(read_file(folder.path("t.json")));
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const double start = event["ts"], duration = event["dur"];
    tracks[{event["pid"], event["tid"]}].emplace_back(start, start + duration);
  }
  CHECK(tracks.size() >= 4);
  CHECK(tracks.begin()->first.first == 0);
  CHECK(tracks.rbegin()->first.first == 1);
  constexpr double tick = 1e-3;  // a nanosecond, in the trace's microseconds
  for (auto& [track, slices] : tracks) {
    std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first, -a.second) < std::pair(b.first, -b.second);
    });
    std::vector<double> ends;
    for (const auto& [start, end] : slices) {
      while (!ends.empty() && ends.back() <= start + tick / 2) ends.pop_back();
      if (!ends.empty()) CHECK(end <= ends.back() + tick / 2);
      ends.push_back(end);
    }
  }
}

TEST_CASE("devices are written in place, a reader that goes away is no failure") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", two_nodes);
  const Finished null = run_foretrain({"simulate", scenario, "--json", "/dev/null", "--csv", "/dev/null"});
  CHECK(null.status == 0);
  CHECK(has(null.out, "images/s"));

  RunOptions nobody_reads;
  nobody_reads.close_output_early = true;
  const Finished closed =
      run_foretrain({"simulate", scenario, "--json", folder.path("r.json")}, nobody_reads);
  CHECK(closed.status == 128 + 13);
  CHECK(closed.err.empty());
  CHECK(json::parse(read_file(folder.path("r.json")))["complete"] == true);
  CHECK(folder.files() == Names{"a.yaml", "r.json"});

  const Finished full =
      run_command({"/bin/sh", "-c", "\"$0\" simulate \"$1\" --json /dev/full", FORETRAIN_PROGRAM, scenario});
  CHECK(full.status == 1);
  CHECK(has(full.err, "/dev/full: cannot write"));
}

TEST_CASE("one node is simulated in the blink of an eye") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", two_nodes);
  // The promise is 50 ms; builds with checks and a busy machine get twenty times as long, and the best of
  // three counts.
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    best = std::min(best, run_foretrain({"simulate", scenario, "--set", "cluster.nodes=1"}).seconds);
  }
  CHECK(best < 1.0);
}

TEST_CASE("an option that would have no effect is not passed over") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("two-nodes.yaml", two_nodes), result = folder.path("r.json");
  REQUIRE(run_foretrain({"simulate", scenario, "--json", result, "-q"}).status == 0);
  for (const Names& arguments :
       {Names{"simulate", scenario, "--no-noise"},
        Names{"compare", result, result, "--set", "cluster.nodes=4"},
        Names{"compare", result, result, "--profile", "h100"},
        Names{"validate", "--parts", "h100", "--profile", "h200"},
        Names{"collective", "all_reduce", "--topology", "ethernet-nodes", "--set", "network.latency=1 ms",
              "--set", "network={bandwidth: 10 Gbit/s}", "--bytes", "1MiB"}}) {
    CAPTURE(arguments[0]);
    CHECK(run_foretrain(arguments).status == 2);
  }
  CHECK(run_foretrain({"compare", result, scenario, "--set", "cluster.nodes=4"}).status == 0);
  CHECK(has(run_foretrain({"simulate", scenario, "--every-step"}).err, "two-nodes: --every-step replays"));
  const Finished explained = run_foretrain({"explain", scenario, "--set", "observed={step: 100 ms}", "--set",
                                            "cluster.network.bandwidth=10000 Gbit/s"});
  CHECK(explained.status == 0);
  CHECK(has(explained.err, "is implausible"));
  const std::string topology = folder.write("t.yaml", "family: star\nhosts: 4\nbandwidth: 10 Gbit/s\n");
  CHECK(has(run_foretrain({"list", "topologies", topology, "--draw", topology}).err, "would overwrite"));
}
