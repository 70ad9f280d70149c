#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/app/subprocess.hpp"

using foretrain::test::Finished;
using foretrain::test::read_file;
using foretrain::test::run_foretrain;
using foretrain::test::TemporaryFolder;
using nlohmann::json;
using Names = std::vector<std::string>;

namespace {

const std::string scenario_text = R"(# Does a second node pay?
model: resnet50
profile: { steps: [[32, 71 ms], [64, 130 ms]] }
batch: { per_worker: 32 }
cluster:
  topology: ethernet-nodes
  nodes: 2
  gpus_per_node: 1
  network: { bandwidth: 10 Gbit/s, latency: 30 us }
)";

}  // namespace

TEST_CASE("a report is the same page from the run and from its JSON") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text);
  const Finished done = run_foretrain(
      {"simulate", scenario, "--json", folder.path("r.json"), "--report", folder.path("direct.html")});
  REQUIRE(done.status == 0);
  const Finished again = run_foretrain({"report", folder.path("r.json"), "-o", folder.path("later.html")});
  CHECK(again.status == 0);
  CHECK(again.out.empty());
  CHECK(again.err.empty());
  const std::string page = read_file(folder.path("direct.html"));
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page == read_file(folder.path("later.html")));
}

TEST_CASE("a report of no result is refused and nothing is written") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text), empty = folder.write("e.json", "{}");
  CHECK(run_foretrain({"report", scenario, "-o", folder.path("x.html")}).status == 2);
  CHECK(run_foretrain({"report", empty, folder.path("none.json"), "-o", folder.path("x.html")}).status == 2);
  CHECK(run_foretrain({"report", empty}).status == 2);
  CHECK(folder.files() == Names{"a.yaml", "e.json"});
}

TEST_CASE("results and scenarios compare against the first") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text);
  REQUIRE(run_foretrain({"sweep", scenario, "--vary", "cluster.nodes=1,2,4", "--json", folder.path("s.json")})
              .status == 0);
  const Finished done = run_foretrain({"compare", folder.path("s.json"), scenario, "--json", "-"});
  REQUIRE(done.status == 0);
  const json rows = json::parse(done.out)["rows"];
  REQUIRE(rows.size() == 4);
  CHECK(rows[0]["speedup"] == 1.0);
  CHECK(rows[1]["scenario"] == "a (nodes=2)");
  CHECK(rows[3]["scenario"] == "a");
  CHECK(rows[1]["speedup"] == rows[3]["speedup"]);
  CHECK(rows[2]["fewer_updates"] == doctest::Approx(4));
  CHECK(rows[2]["speedup"].get<double>() < 4);
  CHECK(run_foretrain({"compare", scenario, scenario}).out.find("speedup") != std::string::npos);
  CHECK(run_foretrain({"compare", scenario}).status == 2);
  CHECK(run_foretrain({"compare", folder.path("none.json"), scenario}).status == 2);
}

TEST_CASE("compare takes what all verbs that predict take") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text);
  const Finished done =
      run_foretrain({"compare", scenario, scenario, "--set", "cluster.nodes=2", "--csv", folder.path("c.csv"),
                     "--report", folder.path("c.html"), "--trace", folder.path("c.trace.json"), "--json",
                     folder.path("c.json"), "--seed", "2"});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  const std::string csv = read_file(folder.path("c.csv"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);
  CHECK(json::parse(read_file(folder.path("c.json")))["rows"].size() == 2);
  CHECK_FALSE(json::parse(read_file(folder.path("c.trace.json")))["traceEvents"].empty());
  // The trace is that of the first scenario, and not of both on the same tracks.
  REQUIRE(run_foretrain({"simulate", scenario, "--set", "cluster.nodes=2", "--seed", "2", "--trace",
                         folder.path("s.trace.json"), "--json", folder.path("s.json")})
              .status == 0);
  CHECK(read_file(folder.path("c.trace.json")) == read_file(folder.path("s.trace.json")));
  const std::string result = folder.path("s.json");
  CHECK(run_foretrain({"compare", result, result, "--trace", folder.path("none.trace.json")}).status == 2);
  CHECK(read_file(folder.path("c.html")).find("</html>") != std::string::npos);
  CHECK(run_foretrain({"compare", scenario, scenario, "--profile", "nosuch"}).status == 2);
}
