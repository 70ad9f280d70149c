#include "sim/input/check.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <span>
#include <string>

#include "sim/input/profile_json.hpp"
#include "sim/output/json.hpp"
#include "sim/output/sweep.hpp"
#include "tests/input/example_profile.hpp"

using namespace foretrain;

namespace {

struct Checked {
  CheckedFile file;
  std::string errors;
};

Checked check(const std::string& text, const std::string& name = "f.yaml") {
  static const Catalog catalog({FORETRAIN_SOURCE_DIR});
  Diagnostics diagnostics;
  Checked out;
  out.file = check_text(text, name, catalog, diagnostics);
  for (const Diagnostic& finding : diagnostics.errors()) out.errors += finding.text() + "\n";
  CHECK(out.file.summary.empty() != diagnostics.ok());
  return out;
}

bool contains(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("looked for: " << part << "\nin: " << text);
  return found;
}

std::string example_json(double forward = 0.5) {
  Result result;
  result.step.time = result.step.p50 = 0.5;
  result.step.breakdown.forward = forward;
  std::string text;
  write_json(std::span(&result, 1), [&](std::string_view piece) { text += piece; });
  return text;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

}  // namespace

TEST_CASE("a YAML file is known by its keys") {
  const std::string scenario =
      "model: resnet50\nprofile: { steps: [[64, 130 ms]] }\nbatch: { per_worker: 64 }\n"
      "cluster: { topology: nvlink-node, gpus_per_node: 4 }\n";
  CHECK(check(scenario).file.kind == FileKind::scenario);
  CHECK(check(scenario).file.summary == "ddp on 4 workers, 64 samples each");
  CHECK(check("parameters: 1000\n").file.kind == FileKind::model);
  CHECK(check("parameters: 1000\n").file.summary == "no layers, 1000 parameters");
  CHECK(check("family: star\nhosts: 8\nbandwidth: 10 Gbit/s\n").file.kind == FileKind::topology);
  CHECK(check("steps: [[32, 71 ms], [64, 130 ms]]\n").file.summary == "2 step times");
  CHECK(contains(check("colour: blue\n").errors, "f.yaml:1:1: is no file that is known here"));
  CHECK(contains(check("- 1\n").errors, "f.yaml:1:1: is no file that is known here"));
  CHECK(contains(check("a: [\n").errors, "not valid YAML"));
}

TEST_CASE("all errors of a file are reported, whatever its kind") {
  const std::string all =
      check("model: resnet51\nprofil: h100\nbatch: { per_worker: -1 }\ncluster: { nodes: 2 }\n").errors;
  CHECK(contains(all, "f.yaml:1:8: unknown model 'resnet51'"));
  CHECK(contains(all, "f.yaml:2:1: unknown key 'profil'"));
  CHECK(contains(all, "f.yaml:3:22: per_worker: '-1' is out of range"));
  CHECK(contains(all, "f.yaml:4:10: cluster has no 'topology'"));
  CHECK(contains(check("family: str\nhosts: 8\n").errors, "did you mean 'star'?"));
  CHECK(contains(check("input: { channels: 3 }\nlayers: [conv2]\n").errors, "did you mean 'conv2d'?"));
}

TEST_CASE("JSON files are known by their schema") {
  const std::string profile = profile_to_json(example_profile());
  CHECK(check(profile, "p.json").file.kind == FileKind::profile);
  CHECK(check(profile, "standard input").file.kind == FileKind::profile);
  CHECK(check(profile, "p.json").file.summary ==
        "NVIDIA H100: 1 operator timing of resnet50, 1 collective timing, 1 run");
  CHECK(contains(check(replaced(profile, "\"batch\":64", "\"batch\":0"), "p.json").errors, "/operators/0"));
  CHECK(contains(check("{\"schema\": \"foretrain/profil/1\"}", "p.json").errors,
                 "did you mean 'foretrain/profile/1'?"));
  CHECK(contains(check("{\"schema\": ", "p.json").errors, "is not valid JSON"));
  CHECK(check("{\"schema\": \"foretrain/run/1\"}", "p.json").file.kind == FileKind::run_record);
}

TEST_CASE("results are held against what the JSON writer writes") {
  CHECK(check(example_json(), "r.json").errors == "");
  CHECK(check(example_json(), "r.json").file.summary == "1 result");
  CHECK(check(replaced(example_json(), "  \"kind\": null,\n", ""), "r.json").errors == "");  // an older one
  const std::string with_launching = example_json();
  const std::size_t member = with_launching.find(",\n    \"launching_s\": ");
  REQUIRE(member != std::string::npos);
  std::string older = with_launching;
  older.erase(member, with_launching.find('\n', member + 2) - member);
  CHECK(check(older, "r.json").errors == "");
  CHECK(check("[" + example_json() + ", " + example_json() + "]", "r.json").file.summary == "2 results");
  CHECK(contains(check(example_json(0.4), "r.json").errors,
                 "r.json: /step/breakdown_s: sums to 0.4 s where time_s is 0.5 s"));
  CHECK(contains(check(replaced(example_json(), "\"speedup\"", "\"sped_up\""), "r.json").errors,
                 "r.json: /scaling: 'speedup' is missing"));
  CHECK(contains(check(replaced(example_json(), "\"speedup\"", "\"sped_up\""), "r.json").errors,
                 "has the unknown member 'sped_up', did you mean 'speedup'?"));
  CHECK(contains(check(replaced(example_json(), "\"workers\": 0", "\"workers\": \"0\""), "r.json").errors,
                 "r.json: /workers: is string where number belongs"));
}

TEST_CASE("the rows of a sweep are held against what the writer writes") {
  foretrain::Sweep sweep;
  sweep.axes = {"cluster.nodes"};
  foretrain::Result result;
  result.step.time = result.step.breakdown.forward = 0.5;
  sweep.rows = {{{"1"}, result}, {{"2"}, result}};
  std::string text;
  write_sweep_json(sweep, [&](std::string_view piece) { text += piece; });
  CHECK(check(text, "sw.json").errors == "");
  CHECK(check(text, "sw.json").file.summary == "2 results");
  nlohmann::json broken = nlohmann::json::parse(text);
  broken["rows"][1]["step"]["time_s"] = -5;
  broken["rows"][0]["set"] = {{"cluster.node", "1"}};
  const std::string errors = check(broken.dump(), "sw.json").errors;
  CHECK(contains(errors, "sw.json: /rows/1/step/time_s: is negative: -5 s"));
  CHECK(contains(errors, "/rows/0/set: 'cluster.nodes' is missing"));
  broken["rows"] = 3;
  broken["varied"] = true;
  CHECK(contains(check(broken.dump(), "sw.json").errors, "/rows: is number where array belongs"));
  CHECK(contains(check(broken.dump(), "sw.json").errors, "unknown member 'varied'"));
}

TEST_CASE("what ships is without errors") {
  const Catalog catalog({FORETRAIN_SOURCE_DIR});
  for (const DataKind kind : {DataKind::model, DataKind::topology, DataKind::profile}) {
    for (const Catalog::Entry& entry : catalog.list(kind)) {
      Diagnostics diagnostics;
      const CheckedFile checked = check_file(entry.path, catalog, diagnostics);
      CHECK_MESSAGE(diagnostics.ok(), entry.path.string());
      CHECK(std::string(name_of(checked.kind)) == name_of(kind));
      CHECK(diagnostics.warnings().empty());
    }
  }
}
