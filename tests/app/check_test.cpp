#include <doctest/doctest.h>

#include <string>

#include "tests/app/subprocess.hpp"

using foretrain::test::Finished;
using foretrain::test::run_foretrain;
using foretrain::test::RunOptions;
using foretrain::test::TemporaryFolder;

TEST_CASE("check says what each file is, and shows all errors of all files with status 2") {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.yaml",
                                        "model: resnet50\nprofile: { steps: [[64, 130 ms]] }\n"
                                        "batch: { per_worker: 64 }\n"
                                        "cluster: { topology: nvlink-node, gpus_per_node: 4 }\n");
  const std::string bad =
      folder.write("bad.yaml", "modl: resnet50\nbatch: { per_worker: x }\ncluster: { topology: star }\n");
  const Finished fine = run_foretrain({"check", good});
  CHECK(fine.status == 0);
  CHECK(fine.out == good + ": scenario, ddp on 4 workers, 64 samples each\n");
  CHECK(fine.err.empty());

  const Finished both = run_foretrain({"check", bad, good, folder.path("absent.yaml")});
  CHECK(both.status == 2);
  CHECK(both.out == fine.out);
  CHECK(both.err.find(bad + ":1:1: unknown key 'modl'") != std::string::npos);
  CHECK(both.err.find("did you mean 'model'?") != std::string::npos);
  CHECK(both.err.find(bad + ":2:22: per_worker: 'x' is not a whole number") != std::string::npos);
  CHECK(both.err.find(bad + ":3:10: star has no 'hosts'") != std::string::npos);
  CHECK(both.err.find(folder.path("absent.yaml") + ": there is no such file") != std::string::npos);
  CHECK(folder.files().size() == 2);
}

TEST_CASE("check reads standard input and prints the reference") {
  RunOptions options;
  options.input = "steps: [[32, 71 ms]]\n";
  const Finished finished = run_foretrain({"check", "-"}, options);
  CHECK(finished.status == 0);
  CHECK(finished.out == "standard input: step-time profile, 1 step time\n");
  CHECK(run_foretrain({"check"}).status == 2);
  CHECK(run_foretrain({"check", "--reference"}).out.starts_with("# Reference of the input files\n"));
}

TEST_CASE("check tells what the patterns of links stand for, and that they fit nothing") {
  const TemporaryFolder folder;
  auto scenario = [&](const std::string& links) {
    return folder.write("links.yaml",
                        "model: resnet50\nprofile: { steps: [[64, 130 ms]] }\nbatch: { per_worker: 64 }\n"
                        "cluster:\n  topology: ethernet-nodes\n  nodes: 2\n  gpus_per_node: 4\n"
                        "  network: { bandwidth: 25 Gbit/s }\n"
                        "  links: [{ name: \"" +
                            links + "\", bandwidth: 1 Gbit/s }]\n");
  };
  const std::string file = scenario("node*.nic0");
  const Finished fine = run_foretrain({"check", file});
  CHECK(fine.status == 0);
  CHECK(fine.out.find(file + ":9:11: 'node*.nic0' fits 4 directions of links: node0.nic0>switch, "
                             "switch>node0.nic0, node1.nic0>switch, switch>node1.nic0\n") !=
        std::string::npos);
  const Finished none = run_foretrain({"check", scenario("node*.nic3")});
  CHECK(none.status == 2);
  CHECK(none.err.find("no vertex or class of topology 'ethernet-nodes' fits 'node*.nic3'") !=
        std::string::npos);
}
