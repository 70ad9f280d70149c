#include "sim/input/file_kind.hpp"

#include <doctest/doctest.h>

using namespace foretrain;

namespace {

std::string refusal(const std::string& text, const std::string& file, FileKind wanted) {
  Diagnostics diagnostics;
  if (!refuse_other_kind(text, file, wanted, diagnostics)) {
    const auto root = parse_document(text, file, diagnostics);
    if (root) refuse_other_kind(*root, wanted, diagnostics);
  }
  return diagnostics.ok() ? "" : diagnostics.errors().front().text();
}

const std::string scenario =
    "model: resnet50\nprofile: h100\nbatch: { per_worker: 64 }\ncluster: { topology: nvlink-node }\n";

}  // namespace

TEST_CASE("a file of another kind is called what it is, and by what reads it") {
  CHECK(refusal("{ \"schema\": \"foretrain/result/1\" }", "s.yaml", FileKind::scenario) ==
        "s.yaml: is a result, where a scenario belongs; 'foretrain compare' and 'foretrain report' read it");
  CHECK(
      refusal("{\"schema\": \"foretrain/run/1\"}", "r.json", FileKind::result) ==
      "r.json: is a run record, where a result belongs; 'foretrain validate' and 'foretrain report' read it");
  CHECK(refusal("title: it\nlayers: []\n", "m.yaml", FileKind::scenario) ==
        "m.yaml:1:1: is a model, where a scenario belongs; a scenario names it, as in 'model: FILE'");
  CHECK(refusal(scenario, "s.yaml", FileKind::topology).find("is a scenario, where a topology belongs") !=
        std::string::npos);
  CHECK(refusal("steps: [[32, 71 ms]]\n", "p.yaml", FileKind::scenario).find("is a step-time profile") !=
        std::string::npos);
}

TEST_CASE("a file of the right kind passes, and so does one with a key mistyped") {
  CHECK(refusal(scenario, "s.yaml", FileKind::scenario) == "");
  CHECK(refusal("modle: x\nclusters: { }\nsequence: 512\n", "s.yaml", FileKind::scenario) == "");
  CHECK(refusal("colour: blue\n", "s.yaml", FileKind::scenario) == "");
  CHECK(refusal("{\"schema\": \"foretrain/plan/1\"}", "p.json", FileKind::plan) == "");
}
