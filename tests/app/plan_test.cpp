#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"

using foretrain::test::approx;
using foretrain::test::Finished;
using foretrain::test::run_foretrain;
using foretrain::test::TemporaryFolder;
using nlohmann::json;

namespace {

const std::string scenario_text = R"(profile: { steps: [[32, 71 ms], [64, 130 ms]], gradients: 100 MB }
batch: { global: 256 }
cluster: { topology: star, hosts: 4, bandwidth: 25 Gbit/s, latency: 10 us }
dataset: { samples: 1000000 }
job: { epochs: 10, price: 2.00 USD/gpu-hour }
)";

}  // namespace

TEST_CASE("plan names the cheapest and the fastest row and exits with 0") {
  TemporaryFolder folder;
  const std::string file = folder.write("s.yaml", scenario_text);
  const Finished done = run_foretrain(
      {"plan", file, "--vary", "cluster.hosts=1,2,4,8", "--deadline", "4h", "--budget", "100USD"});
  CHECK(done.status == 0);
  CHECK(done.out.find("Cheapest: hosts=2") != std::string::npos);
  CHECK(done.out.find("Fastest: hosts=8") != std::string::npos);
  const json plan = json::parse(
      run_foretrain({"plan", file, "--vary", "cluster.hosts=1,2,4,8", "--deadline", "4 h", "--json", "-"})
          .out);
  CHECK(plan["schema"] == "foretrain/plan/1");
  CHECK(plan["rows"].size() == 4);
  CHECK(plan["deadline_s"] == 4 * 3600);
  CHECK(plan["budget"].is_null());
  CHECK(plan["expense"] == "USD");
}

TEST_CASE("plan exits with 3 where no row meets the bounds, and says what to relax") {
  TemporaryFolder folder;
  const std::string file = folder.write("s.yaml", scenario_text);
  const Finished missed =
      run_foretrain({"plan", file, "--vary", "cluster.hosts=1,2", "--deadline", "30min", "--budget", "1USD"});
  CHECK(missed.status == 3);
  CHECK(missed.out.find("No row meets the bounds. Nearest:") != std::string::npos);
  CHECK(missed.out.find("relax") != std::string::npos);
}

TEST_CASE("what plan cannot read ends with 2") {
  TemporaryFolder folder;
  const std::string file = folder.write("s.yaml", scenario_text);
  const std::string vary = "cluster.hosts=1,2";
  CHECK(run_foretrain({"plan", file}).status == 2);
  CHECK(run_foretrain({"plan", file, "--vary", vary, "--deadline", "24"}).status == 2);
  CHECK(run_foretrain({"plan", file, "--vary", vary, "--budget", "400"}).status == 2);
  CHECK(run_foretrain({"plan", file, "--vary", vary, "--budget", "400EUR"}).status == 2);
  CHECK(run_foretrain({"plan", file, "--vary", vary, "--set", "job=null", "--deadline", "1h"}).status == 2);
}

TEST_CASE("a job through simulate: every step replayed is the same job, and console and JSON tell it") {
  TemporaryFolder folder;
  const std::string file = folder.write("s.yaml", scenario_text);
  const json fast = json::parse(run_foretrain({"simulate", file, "--json", "-"}).out)["job"];
  const json slow =
      json::parse(run_foretrain({"simulate", file, "--every-step", "--no-noise", "--json", "-"}).out)["job"];
  CHECK(fast["updates"] == 39'070);
  CHECK(slow["time_s"].get<double>() == approx(fast["time_s"].get<double>()).epsilon(1e-9));
  const std::string text = run_foretrain({"simulate", file}).out;
  CHECK(text.find("39,070 updates") != std::string::npos);
  CHECK(text.find("equal epochs, accuracy not predicted") != std::string::npos);
}

TEST_CASE("explain tells the readings of a scenario, and refuses one without observations") {
  TemporaryFolder folder;
  const std::string file = folder.write("s.yaml", scenario_text + "observed: { step: 260 ms }\n");
  const Finished done = run_foretrain({"explain", file, "--json", "-"});
  CHECK(done.status == 0);
  CHECK(json::parse(done.out)["schema"] == "foretrain/explanation/1");
  CHECK(run_foretrain({"explain", file}).out.find("agree with everything seen") != std::string::npos);
  CHECK(run_foretrain({"explain", folder.write("t.yaml", scenario_text)}).status == 2);
}

TEST_CASE("plan and compare say what was extrapolated and what is warned of") {
  const TemporaryFolder folder;
  const std::string text =
      "profile: { steps: [[32, 71 ms], [64, 130 ms]] }\nmodel: resnet50\n"
      "batch: { per_worker: 16 }\ncluster: { topology: nvlink-node, gpus_per_node: 100 }\n"
      "dataset: { samples: 1000000 }\njob: { epochs: 10 }\n";
  const std::string file = folder.write("s.yaml", text);
  const std::string planned = run_foretrain({"plan", file, "--vary", "batch.per_worker=16,32"}).out;
  CHECK(planned.find("extrapolated: per_worker=16: batch per worker: asked 16; known 32, 64") !=
        std::string::npos);
  CHECK(planned.find("gpus_per_node: '100' is") != std::string::npos);
  const std::string compared = run_foretrain({"compare", file, file}).out;
  CHECK(compared.find("extrapolated: batch per worker: asked 16") != std::string::npos);
  const json rows = json::parse(
      run_foretrain({"plan", file, "--vary", "batch.per_worker=16,32", "--json", "-"}).out)["rows"];
  CHECK(rows[0]["extrapolated"][0]["what"] == "batch per worker");
  CHECK(rows[1]["warnings"].size() == 1);
}
