#include "sim/input/overrides.hpp"

#include <doctest/doctest.h>

using namespace foretrain;

namespace {

std::string errors_of(const Overrides& settings, const std::string& text) {
  Diagnostics diagnostics;
  auto root = parse_document(text, "s.yaml", diagnostics);
  REQUIRE(root);
  apply_overrides(*root, settings, diagnostics);
  std::string all;
  for (const Diagnostic& finding : diagnostics.errors()) all += finding.text() + '\n';
  return all;
}

}  // namespace

TEST_CASE("a key that is set takes the place of the scenario's, and the last one counts") {
  const std::string text = "batch: { per_worker: 64 }\nstrategy: { bucket: 25 MiB }\nmodel: resnet50\n";
  CHECK(errors_of({"batch.global=512"}, text) == "");
  CHECK(errors_of({"strategy.fusion=horovod"}, text) == "");
  CHECK(errors_of({"batch.per_worker=32", "batch.per_worker=16"}, text) == "");
  CHECK(errors_of({"cluster={nodes: 2}", "cluster.nodes=4"}, text) == "");
  CHECK(errors_of({"job.epochs=3", "job=null"}, text).find("undoes 'job.epochs=3'") != std::string::npos);
}

TEST_CASE("a key that would undo another that is set is refused: a row would be called by what it is not") {
  const std::string text = "batch: { per_worker: 64 }\nstrategy: { data: { kind: ddp } }\n";
  CHECK(
      errors_of({"batch.per_worker=32", "batch.global=512"}, text) ==
      "--set batch.global=512: undoes 'batch.per_worker=32', which is set as well: leave one of them out\n");
  CHECK(errors_of({"strategy.fusion=horovod", "strategy.bucket=1 MiB"}, text) ==
        "--set strategy.bucket=1 MiB: undoes 'strategy.fusion=horovod', which is set as well: leave one of "
        "them "
        "out\n");
  CHECK(errors_of({"cluster.nodes=2", "cluster={topology: star}"}, text) ==
        "--set cluster={topology: star}: undoes 'cluster.nodes=2', which is set as well: leave one of them "
        "out, "
        "or put it first\n");
  CHECK(errors_of({{"batch.per_worker=32", "--vary"}, {"batch.global=512", "--zip"}}, text)
            .starts_with("--zip batch.global=512: undoes"));
  CHECK(errors_of({"sequence=512", "sequence.lengths={16: 5}"}, text).find("undoes 'sequence=512'") !=
        std::string::npos);
}
