#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "sim/input/profile_json.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/cpu_backend.hpp"
#include "tests/support/slowdown.hpp"

using namespace foretrain;
using foretrain::test::Finished;
using foretrain::test::run_foretrain;
using foretrain::test::TemporaryFolder;

namespace {

constexpr const char* small_model = R"(# A model that a double-precision reference trains in a moment
title: small
unit: images
input: { channels: 3, height: 8, width: 8 }
classes: 5
optimizer: { kind: sgd, learning_rate: 0.1, momentum: 0.9 }
layers:
  - conv2d: { name: conv, out: 4, kernel: 3, padding: 1, bias: false }
  - batch_norm: { name: bn }
  - relu: { name: relu }
  - global_pool: { name: pool }
  - flatten: { name: flatten }
  - linear: { name: fc, out: 5 }
  - softmax_cross_entropy: { name: loss }
)";

Profile profile_in(const std::string& file) {
  Diagnostics diagnostics;
  auto profile = read_profile(file, diagnostics);
  diagnostics.throw_errors();
  REQUIRE(profile);
  return std::move(*profile);
}

}  // namespace

TEST_CASE("calibrate tells wrong usage apart from a missing device, and writes nothing") {
  const TemporaryFolder folder;
  folder.write("small.yaml", small_model);
  const std::string out = folder.path("p.json");
  const std::string model = folder.path("small.yaml");
  const std::vector<std::vector<std::string>> wrong = {
      {"calibrate", "--model", model, "--batch", "8"},
      {"calibrate", "--model", model, "--out", out},
      {"calibrate", "--model", model, "--batch", "8,x", "--out", out},
      {"calibrate", "--model", model, "--batch", "8", "--precision", "bf61", "--out", out},
      {"calibrate", "--model", "resnet5O", "--batch", "8", "--out", out},
      {"calibrate", "--collectives", "--batch", "8", "--out", out},
      {"calibrate", "--collectives", "--network", "ethernet", "--out", out},
      {"calibrate", "--model", model, "--batch", "8", "--out", folder.path("no/such/folder/p.json")},
      {"calibrate", "--out", out}};
  for (const auto& arguments : wrong) {
    const Finished finished = run_foretrain(arguments);
    CAPTURE(finished.err);
    CHECK(finished.status == 2);
    CHECK(finished.out.empty());
  }
  const Finished missing =
      run_foretrain({"calibrate", "--model", model, "--batch", "8", "--device", "abacus", "--out", out});
  CAPTURE(missing.err);
  CHECK(missing.status == 4);
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("calibrate measures on the reference backend, and extends what it wrote") {
  const TemporaryFolder folder;
  folder.write("small.yaml", small_model);
  const std::string out = folder.path("p.json.gz");
  const std::vector<std::string> common = {
      "calibrate", "--model",   folder.path("small.yaml"), "--device", "reference", "--gpus",
      "1",         "--seconds", test::budget(3),           "--out",    out};
  auto first = common;
  first.insert(first.end(), {"--batch", "4", "--validate-parts", folder.path("parts.json")});
  const Finished finished = run_foretrain(first);
  CAPTURE(finished.err);
  REQUIRE(finished.status == 0);
  CHECK(std::filesystem::exists(folder.path("parts.json")));
  auto second = common;
  second.insert(second.end(), {"--batch", "8", "--append"});
  const Finished extended = run_foretrain(second);
  CAPTURE(extended.err);
  REQUIRE(extended.status == 0);

  const Profile profile = profile_in(out);
  CHECK(profile.device == "reference");
  CHECK(profile.runs.size() == 2);
  CHECK(profile.steps.size() == 2);
  CHECK(profile.operators.size() == 2 * 7);
  CHECK(profile.runs[0].command.find("--batch 4") != std::string::npos);
  for (const OperatorEntry& entry : profile.operators)
    if (entry.layer == "conv") CHECK(entry.passes[0].device.median > 0);
}

TEST_CASE("calibrate measures over a network what passes and exchange cost each other, by a process a node") {
  if (test::cpu_backend() == nullptr) return;
  const TemporaryFolder folder;
  folder.write("small.yaml", small_model);
  const std::string out = folder.path("network.json");
  const auto calibrate = [&](const std::string& rank, const std::string& network) {
    test::RunOptions node;
    node.environment = {"NODE_RANK=" + rank, "NNODES=2", "NCCL_HOSTID=node" + rank};
    return run_foretrain(
        {"calibrate", "--device", "cpu", "--gpus", "1", "--model", folder.path("small.yaml"), "--batch",
         "4,8", "--network", network, "--rendezvous",
         "127.0.0.1:" + std::to_string(20000 + ::getpid() % 20000), "--seconds", "2", "--out", out},
        node);
  };
  const auto on_both = [&](const std::string& network) {
    Finished second;
    std::thread other([&] { second = calibrate("1", network); });
    Finished first = calibrate("0", network);
    other.join();
    CHECK(second.status == first.status);
    return first;
  };
  const Finished done = on_both("ethernet 1gbit tcp");
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  const Profile profile = profile_in(out);
  CHECK(profile.steps.empty());
  REQUIRE(profile.interference.size() == 1);
  const InterferenceEntry& entry = profile.interference[0];
  CHECK(entry.nodes == 2);
  CHECK(entry.ranks == 2);
  CHECK(entry.batch == 8);
  CHECK(entry.line_rate == test::approx(125e6));
  CHECK(entry.network == "ethernet 1gbit tcp");
  CHECK(entry.compute_slowdown.repetitions > 0);
  CHECK(entry.compute_slowdown.median > 0.2);

  const Finished no_rate = on_both("ethernet");
  CHECK(no_rate.status == 2);
  CHECK(no_rate.err.find("'ethernet' names no rate") != std::string::npos);
}
