#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"

using foretrain::test::approx;
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

TEST_CASE(
    "a report is the same page from the run and from its JSON, which does not hold what ranks do when") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text);
  const Finished done = run_foretrain(
      {"simulate", scenario, "--json", folder.path("r.json"), "--report", folder.path("direct.html")});
  REQUIRE(done.status == 0);
  const Finished again = run_foretrain({"report", folder.path("r.json"), "-o", folder.path("later.html")});
  CHECK(again.status == 0);
  CHECK(again.out.empty());
  CHECK(again.err.empty());
  std::string page = read_file(folder.path("direct.html"));
  CHECK(page.starts_with("<!DOCTYPE html>"));
  const std::size_t begin = page.find("<h2>What the ranks do when"), end = page.find("<h2>", begin + 1);
  REQUIRE(end != std::string::npos);
  CHECK(page.substr(begin, end - begin).find("rank 1, communication") != std::string::npos);
  page.erase(begin, end - begin);
  CHECK(page == read_file(folder.path("later.html")));
}

TEST_CASE("a report shows runs, validations and collectives that were measured beside what is predicted") {
  const TemporaryFolder folder;
  const std::string data = FORETRAIN_SOURCE_DIR "/validation/";
  const auto page_of = [&](std::vector<std::string> files) {
    files.insert(files.begin(), "report");
    files.insert(files.end(), {"-o", folder.path("page.html")});
    const Finished done = run_foretrain(files);
    CAPTURE(done.err);
    REQUIRE(done.status == 0);
    return read_file(folder.path("page.html"));
  };
  const auto has = [](const std::string& page, const char* text) {
    return page.find(text) != std::string::npos;
  };
  const std::string run = page_of({data + "job/h200/job.1.json.gz"});
  for (const char* text : {"Measured: growing-batch-2-gpus", "GPU use", "GPU memory", "Processor",
                           "node 0 device 1", "resident memory, mean", "sent over the run",
                           "predicted of the first phase: a kernel or collective runs"}) {
    CAPTURE(text);
    CHECK(has(run, text));
  }
  CHECK_FALSE(has(run, "Network, sent"));  // it sent nothing
  const std::string rows = page_of({data + "live-gpu/summary.json"});
  CHECK(has(rows, "Predicted against measured"));
  CHECK(has(rows, "% off on average"));
  const Finished table =
      run_foretrain({"collective", "all_reduce", "--topology", "nvlink-node", "--set", "gpus_per_node=2",
                     "--bytes", "1KiB..1GiB*32", "--json", folder.path("c.json")});
  REQUIRE(table.status == 0);
  const std::string curves = page_of({folder.path("c.json"), FORETRAIN_SOURCE_DIR "/profiles/h200.json.gz"});
  CHECK(has(curves, "all_reduce over 2 ranks on 1 node"));
  CHECK(has(curves, "measured, h200, nvlink"));
  CHECK(has(curves, "32 KiB"));
}

TEST_CASE("no verb writes over a file that it reads") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text);
  REQUIRE(run_foretrain({"simulate", scenario, "--json", folder.path("r.json"), "-q"}).status == 0);
  const std::string result = read_file(folder.path("r.json"));
  const std::string link = folder.path("link.yaml");
  std::filesystem::create_symlink(scenario, link);
  for (const Names& arguments :
       {Names{"simulate", scenario, "--json", scenario}, Names{"simulate", scenario, "--csv", link},
        Names{"simulate", link, "--report", folder.path("./a.yaml")},
        Names{"simulate", scenario, "--trace", scenario}, Names{"compare", scenario, "--json", scenario},
        Names{"sweep", scenario, "--vary", "cluster.nodes=1,2", "--csv", scenario},
        Names{"report", folder.path("r.json"), "-o", folder.path("r.json")},
        Names{"import", "steps", scenario, "-o", scenario}}) {
    CAPTURE(arguments[0]);
    const Finished done = run_foretrain(arguments);
    CHECK(done.status == 2);
    CHECK(done.err.find("would overwrite") != std::string::npos);
  }
  CHECK(read_file(scenario) == scenario_text);
  CHECK(read_file(folder.path("r.json")) == result);
  // Nor over one that a scenario names.
  const std::string steps = "steps: [[32, 71 ms], [64, 130 ms]]\n";
  const std::string profile = folder.write("p.yaml", steps);
  const std::string named =
      folder.write("named.yaml",
                   "model: resnet50\nprofile: p.yaml\nbatch: { per_worker: 32 }\ncluster: { "
                   "topology: one-node, workers: 1 }\n");
  REQUIRE(run_foretrain({"simulate", named, "-q"}).status == 0);
  const Finished done = run_foretrain({"simulate", named, "--json", folder.path("./p.yaml")});
  CHECK(done.status == 2);
  CHECK(done.err.find("would overwrite p.yaml of ") != std::string::npos);
  CHECK(read_file(profile) == steps);
  // Nor over one that an option names, or that ships by the name given.
  for (const Names& arguments :
       {Names{"simulate", scenario, "--set", "profile=" + profile, "--json", profile},
        Names{"sweep", scenario, "--vary", "profile=" + profile, "--csv", profile},
        Names{"simulate", named, "--set", "model=resnet50", "--json",
              FORETRAIN_SOURCE_DIR "/models/resnet50.yaml"},
        Names{"simulate", named, "--json", FORETRAIN_SOURCE_DIR "/models/resnet50.yaml"},
        Names{"collective", "all_reduce", "--topology", "dgx-h100", "--bytes", "1MiB", "--json",
              FORETRAIN_SOURCE_DIR "/topologies/dgx-h100.yaml"}}) {
    CAPTURE(arguments[0]);
    const Finished over = run_foretrain(arguments);
    CHECK(over.status == 2);
    CHECK(over.err.find("would overwrite") != std::string::npos);
  }
  CHECK(read_file(profile) == steps);
}

TEST_CASE("no two options write to one file, whatever the verb") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text), x = folder.path("x");
  for (const Names& arguments :
       {Names{"simulate", scenario}, Names{"sweep", scenario, "--vary", "cluster.nodes=1,2"},
        Names{"compare", scenario, scenario}, Names{"validate", scenario},
        Names{"collective", "all_reduce", "--topology", "dgx-h100", "--bytes", "1MiB"}}) {
    CAPTURE(arguments[0]);
    Names both = arguments;
    both.insert(both.end(), {"--json", x, "--csv", folder.path("./x")});
    const Finished done = run_foretrain(both);
    CHECK(done.status == 2);
    CHECK(done.err.find("--json and --csv both write to ") != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(x));
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
  CHECK(rows[2]["fewer_updates"] == approx(4));
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

TEST_CASE("report, compare and check read results from standard input, compressed or not") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text), page = folder.path("p.html");
  for (const char* name : {"r.json", "r.json.gz"}) {
    const std::string result = folder.path(name);
    REQUIRE(run_foretrain({"simulate", scenario, "--json", result, "-q"}).status == 0);
    foretrain::test::RunOptions piped;
    piped.input = read_file(result);
    CHECK(run_foretrain({"report", "-", "-o", page}, piped).status == 0);
    CHECK(run_foretrain({"check", "-"}, piped).out == "standard input: result, 1 result\n");
    const Finished compared = run_foretrain({"compare", "-", scenario}, piped);
    CHECK(compared.status == 0);
    CHECK(compared.out == run_foretrain({"compare", result, scenario}).out);
  }
}
