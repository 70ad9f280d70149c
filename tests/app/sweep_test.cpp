#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
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

TEST_CASE(
    "on a terminal a long sweep says how much is done and how long the rest takes, and then takes it away") {
  if (!std::filesystem::exists("/usr/bin/script")) return;  // gives a program a terminal
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text);
  const std::string program =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "foretrain").string();
  const std::string sweep = "timeout --foreground -s INT 4 " + program + " sweep " + scenario +
                            " --vary 'cluster.network.latency=1 us..900000 us+1' --json " +
                            folder.path("s.json");
  const std::string shown = foretrain::test::run_command({"/usr/bin/script", "-qec", sweep, "/dev/null"}).out;
  CHECK(shown.find(" of 900000, ") != std::string::npos);
  CHECK(shown.find(" left") != std::string::npos);
  const std::size_t wiped = shown.rfind("\r\x1b[K");
  REQUIRE(wiped != std::string::npos);
  CHECK(shown.find(" left", wiped) == std::string::npos);
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
  // A value is called by the option that has it.
  CHECK(run_foretrain({"sweep", scenario, "--vary", "cluster.colour=1,2"})
            .err.find("--vary cluster.colour=1: ") != std::string::npos);
  CHECK(
      run_foretrain({"sweep", scenario, "--zip", "cluster.nodes=-2"}).err.find("--zip cluster.nodes=-2: ") !=
      std::string::npos);
  CHECK(run_foretrain({"sweep", scenario}).status == 2);
  CHECK(run_foretrain({"sweep", scenario, "--vary", "cluster.nodes=1", "--vary", "cluster.nodes=2"}).status ==
        2);
  CHECK(folder.files() == std::vector<std::string>{"a.yaml"});
}

TEST_CASE("zipped keys move together, and are crossed with the others") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text);
  const Finished done =
      run_foretrain({"sweep", scenario, "--vary", "cluster.network.bandwidth=10 Gbit/s,25 Gbit/s", "--zip",
                     "cluster.nodes=1..4*2", "--zip", "batch.per_worker=64,48,32", "--json", "-"});
  REQUIRE(done.status == 0);
  const json rows = json::parse(done.out)["rows"];
  REQUIRE(rows.size() == 6);
  CHECK(rows[1]["set"] ==
        json{{"cluster.network.bandwidth", "10 Gbit/s"}, {"cluster.nodes", "2"}, {"batch.per_worker", "48"}});
  CHECK(rows[3]["set"] ==
        json{{"cluster.network.bandwidth", "25 Gbit/s"}, {"cluster.nodes", "1"}, {"batch.per_worker", "64"}});
  const Finished unequal =
      run_foretrain({"sweep", scenario, "--zip", "cluster.nodes=1,2", "--zip", "batch.per_worker=64,48,32"});
  CHECK(unequal.status == 2);
  CHECK(unequal.err.find("zipped keys have as many each") != std::string::npos);
  CHECK(run_foretrain({"sweep", scenario}).status == 2);
}

TEST_CASE("parts of a grid by number or by the ranks of a launcher, joined by report") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("a.yaml", scenario_text);
  const std::string axis = "cluster.nodes=1..7";
  const Finished whole =
      run_foretrain({"sweep", scenario, "--vary", axis, "--json", folder.path("whole.json")});
  REQUIRE(whole.status == 0);
  const json all = json::parse(read_file(folder.path("whole.json")))["rows"];
  for (int part = 1; part <= 3; ++part) {
    const std::string name = folder.path("part" + std::to_string(part) + ".json");
    const Finished done = run_foretrain(
        {"sweep", scenario, "--vary", axis, "--json", name, "--shard", std::to_string(part) + "/3"});
    REQUIRE(done.status == 0);
    const json read = json::parse(read_file(name));
    CHECK(read["part"] == json{{"index", part}, {"of", 3}, {"points", 7}});
    for (const json& row : read["rows"]) CHECK(row["step"] == all[row["point"].get<std::size_t>()]["step"]);
  }
  // Out of order, they are the whole; a part that is missing is said.
  CHECK(run_foretrain({"report", folder.path("part3.json"), folder.path("part1.json"),
                       folder.path("part2.json"), "-o", folder.path("parts.html")})
            .status == 0);
  CHECK(run_foretrain({"report", folder.path("whole.json"), "-o", folder.path("whole.html")}).status == 0);
  CHECK(read_file(folder.path("parts.html")) == read_file(folder.path("whole.html")));
  const Finished lacking = run_foretrain(
      {"report", folder.path("part3.json"), folder.path("part1.json"), "-o", folder.path("two.html")});
  CHECK(lacking.status == 0);
  CHECK(lacking.err.find("2 of the grid's 7 points are in none of its parts") != std::string::npos);
  RunOptions rank;
  for (const std::vector<std::string>& environment :
       {std::vector<std::string>{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"},
        {"SLURM_PROCID=1", "SLURM_NTASKS=2"},
        {"PMI_RANK=1", "PMI_SIZE=2"},
        {"SLURM_ARRAY_TASK_ID=6", "SLURM_ARRAY_TASK_MIN=5", "SLURM_ARRAY_TASK_COUNT=2"},
        {"SLURM_ARRAY_TASK_ID=14", "SLURM_ARRAY_TASK_MIN=4", "SLURM_ARRAY_TASK_MAX=14",
         "SLURM_ARRAY_TASK_STEP=10", "SLURM_ARRAY_TASK_COUNT=2"}}) {
    rank.environment = environment;
    CHECK(run_foretrain({"sweep", scenario, "--vary", axis, "--json", folder.path("r.json")}, rank).status ==
          0);
    CHECK(json::parse(read_file(folder.path("r.2-of-2.json")))["rows"].size() == 3);
    std::filesystem::remove(folder.path("r.2-of-2.json"));
  }
  // A batch script that has begun no tasks computes all; tasks within a task of an array divide its part.
  const auto sweep_under = [&](std::vector<std::string> environment) {
    rank.environment = std::move(environment);
    return run_foretrain({"sweep", scenario, "--vary", axis, "--json", folder.path("r.json")}, rank).status;
  };
  CHECK(sweep_under({"SLURM_JOB_ID=7", "SLURM_PROCID=0", "SLURM_NTASKS=2"}) == 0);
  CHECK(json::parse(read_file(folder.path("r.json")))["rows"].size() == 7);
  CHECK(sweep_under({"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_NTASKS=2",
                     "SLURM_ARRAY_TASK_ID=1", "SLURM_ARRAY_TASK_COUNT=2"}) == 0);
  CHECK(json::parse(read_file(folder.path("r.3-of-4.json")))["part"] ==
        json{{"index", 3}, {"of", 4}, {"points", 7}});
  // Of tasks that a list has numbered nobody knows the part: none is computed twice, none left out.
  rank.environment = {"SLURM_ARRAY_TASK_ID=3", "SLURM_ARRAY_TASK_MIN=1", "SLURM_ARRAY_TASK_MAX=7",
                      "SLURM_ARRAY_TASK_STEP=1", "SLURM_ARRAY_TASK_COUNT=3"};
  const Finished listed =
      run_foretrain({"sweep", scenario, "--vary", axis, "--json", folder.path("r.json")}, rank);
  CHECK(listed.status == 2);
  CHECK(listed.err.find("say its part by --shard i/n") != std::string::npos);
  for (const char* wrong : {"0/3", "4/3", "x", "1", "1/"}) {
    CAPTURE(wrong);
    CHECK(run_foretrain({"sweep", scenario, "--vary", axis, "--shard", wrong}).status == 2);
  }
}
