// No line that a person reads is wider than a terminal of 80 columns.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "sim/output/text_layout.hpp"
#include "tests/app/subprocess.hpp"

using foretrain::test::Finished;
using foretrain::test::run_foretrain;

namespace {

std::vector<std::string> shipped_scenarios() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(FORETRAIN_SOURCE_DIR "/scenarios")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void check_width(const std::vector<std::string>& arguments, int status = 0) {
  const Finished done = run_foretrain(arguments);
  CHECK(done.status == status);
  CHECK_FALSE(done.out.empty());
  std::istringstream lines(done.out);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(foretrain::display_width(line) <= 80);
  }
}

}  // namespace

TEST_CASE("simulate says each shipped scenario, with all details, within 80 columns") {
  const std::vector<std::string> files = shipped_scenarios();
  CHECK(files.size() > 20);
  for (const std::string& file : files) {
    CAPTURE(file);
    check_width({"simulate", file, "-v"});
    check_width({"simulate", file, "--set", "precision=bf16", "-q"});
  }
}

TEST_CASE("several scenarios, compared or side by side, and sweeps stay within 80 columns") {
  std::vector<std::string> all;
  for (const std::string& file : shipped_scenarios()) {
    if (file.find("resnet50") != std::string::npos) all.push_back(file);
  }
  for (const char* verb : {"simulate", "compare"}) {
    std::vector<std::string> arguments{verb};
    arguments.insert(arguments.end(), all.begin(), all.end());
    check_width(arguments);
  }
  check_width({"sweep", all.back(), "--vary", "cluster.network.bandwidth=10 Gbit/s,25 Gbit/s", "--vary",
               "cluster.nodes=1,2,8"});
}

TEST_CASE("tables of collectives stay within 80 columns") {
  for (const char* kind :
       {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "send_recv"}) {
    check_width({"collective", kind, "--topology", "hgx-h200", "--bytes", "1KiB..1GiB*4"});
    check_width({"collective", kind, "--topology", "nvlink-node", "--set", "gpus_per_node=2", "--profile",
                 "h100", "--bytes", "1000 B..4GiB*7"});
  }
  for (const char* algorithm : {"ring", "tree", "halving-doubling", "hierarchical", "parameter-server"}) {
    check_width({"collective", "all_reduce", "--topology", "dgx-h100", "--set", "nodes=4", "--bytes",
                 "1KiB..1GiB*16", "--algorithm", algorithm});
    check_width({"collective", "all_reduce", "--topology", "dgx-h100", "--set", "nodes=4", "--bytes",
                 "1KiB..16MiB*16", "--algorithm", algorithm, "--stepwise"});
  }
}

TEST_CASE("readings of what was observed, and plans, stay within 80 columns") {
  int observed = 0;
  for (const std::string& file : shipped_scenarios()) {
    if (foretrain::test::read_file(file).find("\nobserved:") == std::string::npos) continue;
    CAPTURE(file);
    check_width({"explain", file});
    ++observed;
  }
  CHECK(observed > 0);
  const std::string hybrid = FORETRAIN_SOURCE_DIR "/scenarios/case-3-hybrid-2.yaml";
  const auto plan = [&](const char* deadline, const char* budget, int status) {
    check_width({"plan", hybrid, "--vary", "cluster.bandwidth=1 Gbit/s,10 Gbit/s", "--vary",
                 "job.workers.samples_per_worker=64,128", "--deadline", deadline, "--budget", budget},
                status);
  };
  plan("8h", "400USD", 0);
  plan("1s", "0.01USD", 3);
}
