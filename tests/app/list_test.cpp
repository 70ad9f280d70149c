#include <doctest/doctest.h>

#include "tests/app/subprocess.hpp"

using foretrain::test::Finished;
using foretrain::test::run_foretrain;
using foretrain::test::RunOptions;
using foretrain::test::TemporaryFolder;

TEST_CASE("list names what ships, a line each, the name first") {
  const Finished models = run_foretrain({"list", "models"});
  CHECK(models.status == 0);
  CHECK(models.err.empty());
  CHECK(models.out.find("\nresnet50 ") != std::string::npos);
  CHECK(models.out.starts_with("bert-large "));
  const Finished all = run_foretrain({"list"});
  CHECK(all.out.find("resnet50") != std::string::npos);
  CHECK(run_foretrain({"list", "modles"}).status == 2);
  CHECK(run_foretrain({"list", "modles"}).err.find("did you mean 'models'") != std::string::npos);
}

TEST_CASE("FORETRAIN_DATA names folders that come first") {
  const TemporaryFolder folder;
  folder.write("models/aaa.yaml", "# Mine\nname: aaa\n");
  RunOptions options;
  options.environment = {"FORETRAIN_DATA=" + folder.path("")};
  const Finished models = run_foretrain({"list", "models"}, options);
  CHECK(models.out.starts_with("aaa "));
  CHECK(models.out.find("resnet50") != std::string::npos);
  CHECK(run_foretrain({"--version"}, options).out.find(folder.path("").substr(0, 20)) != std::string::npos);
}

TEST_CASE("a topology is drawn as DOT, and by Graphviz where it is installed") {
  const Finished dot = run_foretrain(
      {"list", "topologies", "star", "--set", "hosts=3", "--set", "bandwidth=10 Gbit/s", "--draw", "-"});
  CHECK(dot.status == 0);
  CHECK(dot.out.starts_with("graph \"star\" {"));
  CHECK(dot.out.find("[label=\"10.0 Gbit/s\", color=") != std::string::npos);
  CHECK(dot.out.find("subgraph cluster_2 {") != std::string::npos);
  const TemporaryFolder folder;
  const Finished svg = run_foretrain({"list", "topologies", "dgx-1", "--draw", folder.path("a.svg")});
  if (svg.status == 0) {
    CHECK(foretrain::test::read_file(folder.path("a.svg")).find("<svg") != std::string::npos);
  } else {
    CHECK(svg.status == 4);
    CHECK(svg.err.find("Graphviz's 'dot' is not installed") != std::string::npos);
  }
  CHECK(run_foretrain({"list", "models", "resnet50", "--draw", "-"}).status == 2);
  CHECK(run_foretrain({"list", "topologies", "star"}).status == 2);
}
