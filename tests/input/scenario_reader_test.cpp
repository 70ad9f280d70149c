#include "sim/input/scenario_reader.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "sim/base/random.hpp"
#include "sim/input/job.hpp"
#include "sim/input/observed.hpp"
#include "sim/input/profile_join.hpp"
#include "sim/input/profile_json.hpp"
#include "sim/training/gpu_types.hpp"
#include "tests/input/example_profile.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;
namespace fs = std::filesystem;

namespace {

const Catalog& shipped() {
  static const Catalog catalog({FORETRAIN_SOURCE_DIR});
  return catalog;
}

// A scenario that holds; tests change a line of it.
const std::string valid =
    "# Does a second node pay?\n"
    "model: { parameters: 60880896 }\n"
    "profile: { steps: [[32, 71 ms], [64, 130 ms]] }\n"
    "precision: bf16\n"
    "batch: { per_worker: 64 }\n"
    "cluster:\n"
    "  topology: ethernet-nodes\n"
    "  nodes: 2\n"
    "  gpus_per_node: 4\n"
    "  network: { bandwidth: 10 Gbit/s, latency: 30 us, transport: tcp }\n"
    "strategy: { kind: ddp, bucket: 25 MiB }\n"
    "optimizer: { kind: sgd, momentum: 0.9 }\n"
    "dataset: { samples: 1281167 }\n"
    "job: { epochs: 90, evaluate: { every: 1 epoch, samples: 50000 }, checkpoint: { every: 2 epochs, write: "
    "1 "
    "GB/s } }\n";

struct Read {
  std::optional<Scenario> scenario;
  std::string errors, warnings;
};

Read read(const std::string& text, const Overrides& overrides = {}) {
  Diagnostics diagnostics;
  Read out;
  out.scenario = parse_scenario(text, "s.yaml", shipped(), overrides, diagnostics);
  CHECK(out.scenario.has_value() == diagnostics.ok());
  for (const Diagnostic& finding : diagnostics.errors()) out.errors += finding.text() + "\n";
  for (const Diagnostic& finding : diagnostics.warnings()) out.warnings += finding.text() + "\n";
  return out;
}

// The valid scenario with one part replaced.
std::string with(const std::string& what, const std::string& by) {
  std::string text = valid;
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

std::string errors_with(const std::string& what, const std::string& by) {
  return read(with(what, by)).errors;
}

bool contains(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("looked for: " << part << "\nin: " << text);
  return found;
}

const ResolvedInput* input_of(const Scenario& scenario, const std::string& path) {
  for (const ResolvedInput& input : scenario.inputs) {
    if (input.path == path) return &input;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a scenario is read with all its keys") {
  const Read result = read(valid);
  REQUIRE_MESSAGE(result.scenario, result.errors);
  const Scenario& s = *result.scenario;
  CHECK(result.warnings == "");
  CHECK(s.name == "s");
  CHECK(s.question == "Does a second node pay?");
  REQUIRE(s.model);
  CHECK(s.model->parameter_count() == 60'880'896);
  REQUIRE(s.step_times);
  CHECK_FALSE(s.profile);
  REQUIRE(s.step_times->points.size() == 2);
  CHECK(s.step_times->points[1].batch == 64);
  CHECK(s.step_times->points[1].seconds == approx(0.130));
  CHECK(s.step_times->backward_fraction == approx(2.0 / 3));
  CHECK(s.step_times->backward_fraction_origin == Origin::assumed);
  CHECK(s.precision == Precision::bf16);
  CHECK(s.batch_per_worker == 64);
  CHECK(s.batch_global == 512);
  CHECK(s.cluster.topology.workers.size() == 8);
  CHECK(s.cluster.topology.nodes == 2);
  CHECK(s.strategy.kind == StrategyKind::ddp);
  CHECK(s.strategy.fusion.bucket == Bytes(26'214'400));
  CHECK(s.strategy.fusion.first_bucket == Bytes(1'048'576));
  CHECK(s.strategy.gradients == Precision::fp32);
  CHECK(s.optimizer.momentum == 0.9);
  CHECK(s.dataset_samples == 1'281'167);
  REQUIRE(s.job);
  CHECK(s.job->epochs == 90);
  CHECK(s.job->last_batch == LastBatch::keep);
  CHECK(s.job->evaluate->every.amount == 1);
  CHECK(s.job->evaluate->samples == 50'000);
  CHECK(s.job->checkpoint->every.unit == Interval::Unit::epochs);
  CHECK(s.job->checkpoint->every.amount == 2);
  CHECK(s.job->checkpoint->write.bytes_per_second() == 1e9);
}

TEST_CASE("inputs say what was given and what is a default") {
  const Read result = read(valid);
  REQUIRE(result.scenario);
  const Scenario& s = *result.scenario;
  REQUIRE(input_of(s, "cluster.network.bandwidth"));
  CHECK(input_of(s, "cluster.network.bandwidth")->value == "10 Gbit/s");
  CHECK_FALSE(input_of(s, "cluster.network.bandwidth")->is_default);
  REQUIRE(input_of(s, "cluster.nics"));
  CHECK(input_of(s, "cluster.nics")->is_default);
  REQUIRE(input_of(s, "strategy.data.first_bucket"));
  CHECK(input_of(s, "strategy.data.first_bucket")->value == "1 MiB");
  CHECK(input_of(s, "strategy.data.first_bucket")->is_default);
  CHECK(input_of(s, "strategy.data.first_bucket")->origin == Origin::assumed);
  CHECK(input_of(s, "strategy.data.bucket")->origin == Origin::measured);
  REQUIRE(input_of(s, "profile.backward_fraction"));
  CHECK(input_of(s, "profile.backward_fraction")->is_default);
  REQUIRE(input_of(s, "job.last_batch"));
  CHECK(input_of(read(with("precision: bf16\n", "")).scenario.value(), "precision")->value == "fp32");
}

TEST_CASE("required parts are named where they are missing, all at once") {
  const std::string all = read("precision: bf16\n").errors;
  CHECK(contains(all, "s.yaml:1:1: scenario has no 'model', which is required"));
  CHECK(contains(all, "s.yaml:1:1: scenario has no 'profile', which is required"));
  CHECK(contains(all, "s.yaml:1:1: scenario has no 'cluster', which is required"));
  CHECK(contains(all, "s.yaml:1:1: scenario has no 'batch', which is required"));
  CHECK(read("- a\n").errors == "s.yaml:1:1: a scenario is a map of keys, this is a list\n");
}

TEST_CASE("unknown keys, wrong types and units are found at every level") {
  CHECK(contains(errors_with("precision", "precison"), "s.yaml:4:1: unknown key 'precison' in scenario"));
  CHECK(contains(errors_with("precision", "precison"), "did you mean 'precision'?"));
  CHECK(errors_with("bf16", "bf17") ==
        "s.yaml:4:12: precision: 'bf17' is unknown: allowed are fp32, tf32, bf16, fp16, did you mean "
        "'bf16'?\n");
  CHECK(contains(errors_with("bucket: 25 MiB", "bucket: 25"), "s.yaml:11:32: bucket: '25' has no unit"));
  CHECK(contains(errors_with("bucket: 25 MiB", "buckt: 25 MiB"),
                 "s.yaml:11:24: unknown key 'buckt' in strategy"));
  CHECK(contains(errors_with("10 Gbit/s", "10"), "s.yaml:10:25: bandwidth: '10' has no unit"));
  CHECK(contains(errors_with("{ per_worker: 64 }", "64"),
                 "s.yaml:5:8: batch: is a single value ('64'): it takes"));
  CHECK(contains(errors_with("90", "-1"), "s.yaml:14:16: epochs: '-1' is out of range: it must be above 0"));
  CHECK(contains(errors_with("1 epoch,", "1,"), "s.yaml:14:39: every: '1' has no unit"));
  CHECK(contains(errors_with("write: 1 GB/s", "write: 1 GB"), "write: '1 GB' has the unknown unit 'GB'"));
  CHECK(contains(errors_with("samples: 1281167", "samples: 1.28e6"), "'1.28e6' is not a whole number"));
  CHECK(contains(errors_with("dataset: { samples: 1281167 }\n", "dataset: { samples: 1281167 }\nmodel: x\n"),
                 "s.yaml:14:1: the key 'model' is a duplicate: it stands in line 2 already"));
}

TEST_CASE("a global batch is divided evenly among the workers") {
  const Read result = read(with("per_worker: 64", "global: 512"));
  REQUIRE(result.scenario);
  CHECK(result.scenario->batch_per_worker == 64);
  CHECK(errors_with("per_worker: 64", "global: 500") ==
        "s.yaml:5:18: global: 500 samples do not divide evenly among 8 workers; nearest are 496 and 504\n");
  CHECK(errors_with("per_worker: 64", "global: 5") ==
        "s.yaml:5:18: global: 5 samples do not divide evenly among 8 workers; nearest is 8\n");
  CHECK(contains(errors_with("per_worker: 64", "global: 512, per_worker: 64"),
                 "s.yaml:5:8: batch: 'per_worker' and 'global' stand side by side: give one"));
  CHECK(contains(errors_with("{ per_worker: 64 }", "{}"),
                 "s.yaml:5:8: batch: has neither 'per_worker' nor 'global': give one"));
  CHECK(errors_with("samples: 1281167", "samples: 511") ==
        "s.yaml:5:22: the global batch of 512 samples is above the data set of 511\n");
  CHECK(errors_with("samples: 1281167", "samples: 512") == "");
}

TEST_CASE("a strategy may be written short or under data") {
  const Read result =
      read(with("{ kind: ddp, bucket: 25 MiB }", "{ data: { kind: independent, gradients: bf16 } }"));
  REQUIRE(result.scenario);
  CHECK(result.scenario->strategy.kind == StrategyKind::independent);
  CHECK(result.scenario->strategy.gradients == Precision::bf16);
  CHECK(errors_with("{ kind: ddp, bucket: 25 MiB }", "{ data: { kind: ddp }, bucket: 25 MiB }") ==
        "s.yaml:11:34: 'bucket' stands beside 'data': put it within\n");
  CHECK(contains(errors_with("{ kind: ddp, bucket: 25 MiB }", "ddp"), "strategy: is a single value ('ddp')"));
}

TEST_CASE("what is not modelled yet is known and refused with the nearest") {
  for (const std::string word : {"fsdp", "zero", "tensor", "pipeline", "expert", "context"}) {
    CHECK(errors_with("kind: ddp", "kind: " + word) ==
          "s.yaml:11:19: kind: '" + word + "' is not modelled yet; nearest is 'ddp'\n");
    CHECK(errors_with("kind: ddp", word + ": 4") ==
          "s.yaml:11:13: '" + word + "' is not modelled yet; nearest is 'ddp'\n");
    CHECK(errors_with("{ kind: ddp, bucket: 25 MiB }", "{ data: { kind: ddp }, " + word + ": 4 }") ==
          "s.yaml:11:34: '" + word + "' is not modelled yet; nearest is 'ddp'\n");
    CHECK(errors_with("precision: bf16", word + ": 4") ==
          "s.yaml:4:1: '" + word + "' is not modelled yet; nearest is 'ddp'\n");
  }
}

TEST_CASE("a host has a process for each GPU, or one for all of few threads, where it is asked for alone") {
  const auto host = [](const std::string& keys) {
    const Read found = read(valid + "host: { " + keys + " }\n");
    REQUIRE(found.scenario);
    REQUIRE(found.scenario->host);
    return *found.scenario->host;
  };
  for (const char* keys : {"cores: 64", "threads: 2", "threads: 1, cores: 8"}) {
    CHECK_FALSE(host(keys).process_a_worker);
    CHECK_FALSE(host(keys).one_process);
  }
  CHECK(host("processes: per_gpu").process_a_worker);
  CHECK(host("processes: one, threads: 2").one_process);
  CHECK_FALSE(host("threads: 1").shared);
  CHECK(host("shared: true").shared);
}

TEST_CASE("what is known and not simulated yet is never ignored in silence") {
  CHECK(contains(errors_with("precision: bf16", "host: { processes: two }"), "allowed are one, per_gpu"));
  CHECK(contains(errors_with("precision: bf16", "precision: bf16\nworkload: trace.json"),
                 "precision: stands beside workload"));
  CHECK(contains(errors_with("batch: { per_worker: 64 }\n", "job_: 1\n"), "unknown key 'job_'"));
  const std::string phases = "job: { epochs: 90, schedule: [{ from: 0 epoch, batch: 128, workers: 1 }], ";
  CHECK(contains(errors_with("job: { epochs: 90, ", phases), "batch: stands beside job.schedule"));
  CHECK(
      contains(errors_with("job: { epochs: 90, ", "job: { epochs: 90, schedule: [{ from: 0, batch: 128 }], "),
               "from: '0' has no unit"));
  CHECK(contains(
      errors_with("job: { epochs: 90, ", "job: { epochs: 90, schedule: { rule: geodam, batch: 128 }, "),
      "did you mean 'geodamp'?"));
  const Read hints =
      read(with("precision: bf16",
                "observed: { step: 2.04 s, network: 200 MB/s, direction: each, gpu_busy: 1.0 }\n"
                "execution: { deterministic: true, cuda_graph: false }"));
  REQUIRE_MESSAGE(hints.scenario, hints.errors);
  CHECK_FALSE(hints.warnings.find("cuda_graph") != std::string::npos);
  CHECK(hints.scenario->execution.deterministic);
  CHECK(hints.scenario->warnings.empty());
  REQUIRE(hints.scenario->observed);
  CHECK(hints.scenario->observed->step == 2.04);
  CHECK(hints.scenario->observed->direction == Observed::Direction::each);
  const Read job =
      read(with("job: { epochs: 90, ", "job: { epochs: 90, price: 2.50 USD/gpu-hour, last_batch: drop, "));
  REQUIRE_MESSAGE(job.scenario, job.errors);
  CHECK(job.scenario->job->price->per_gpu_hour == 2.5);
  CHECK(job.scenario->job->price->currency == "USD");
  CHECK(job.scenario->job->last_batch == LastBatch::drop);
  CHECK(contains(errors_with("job: { epochs: 90, ", "job: { epochs: 90, target: { loss: 1.58 }, "),
                 "target: needs the curve"));
}

TEST_CASE("implausible values get a hint and are used as they stand") {
  const Read result = read(with("bucket: 25 MiB", "bucket: 25 KiB"));
  REQUIRE(result.scenario);
  CHECK(result.scenario->strategy.fusion.bucket == Bytes(25'600));
  CHECK(result.warnings ==
        "s.yaml:11:32: bucket: '25 KiB' is implausible (usual: 64 KiB to 1 GiB); did you mean '25 MiB'?\n");
  REQUIRE(result.scenario->warnings.size() == 1);
}

TEST_CASE("fusion of gradients: named, or told by its keys") {
  const auto fusion = [](const std::string& keys, const Overrides& overrides = {}) {
    const Read result = read(with("bucket: 25 MiB", keys), overrides);
    REQUIRE_MESSAGE(result.scenario, result.errors);
    return result.scenario->strategy.fusion;
  };
  CHECK(fusion("servers: 1").kind == FusionKind::buckets);
  CHECK(fusion("fusion: none").kind == FusionKind::none);
  CHECK(fusion("fusion: horovod").threshold == Bytes(128 << 20));
  CHECK(fusion("cycle: 5 ms").kind == FusionKind::horovod);
  CHECK(fusion("cycle: 5 ms, threshold: 64 MiB").cycle == Time::seconds(5e-3));
  CHECK(fusion("repack: 8").kind == FusionKind::packs);
  CHECK(fusion("repack: 8").packs == 8);
  CHECK(fusion("max_bytes: 10 KiB").max_group == 10);
  CHECK(fusion("fusion: groups, max_group: 3").max_group == 3);
  // --set takes the place of what belongs to another fusion.
  CHECK(fusion("bucket: 25 MiB", {"strategy.repack=2"}).packs == 2);
  CHECK(fusion("repack: 2", {"strategy.fusion=none"}).kind == FusionKind::none);
  CHECK(fusion("fusion: none", {"strategy.data.bucket=1 MiB"}).bucket == Bytes(1 << 20));
  CHECK(contains(
      errors_with("bucket: 25 MiB", "bucket: 25 MiB, repack: 4"),
      "s.yaml:11:48: repack: belongs to fusion packs, and stands beside 'bucket': give one of the two"));
  CHECK(contains(errors_with("bucket: 25 MiB", "fusion: none, cycle: 1 ms"),
                 "cycle: belongs to fusion horovod, and stands beside 'fusion: none'"));
  CHECK(contains(errors_with("bucket: 25 MiB", "repack: 0"), "repack"));
  CHECK(contains(errors_with("bucket: 25 MiB }", "cycle: 1 ms }\nexecution: { deterministic: true }"),
                 "deterministic: Horovod's fusion goes by time"));
  const Scenario packs = *read(with("bucket: 25 MiB", "repack: 8")).scenario;
  CHECK(input_of(packs, "strategy.data.bucket") == nullptr);  // no default that nothing rests on
  CHECK(input_of(packs, "strategy.data.repack") != nullptr);
}

TEST_CASE("servers and accumulation of data parallelism") {
  const Read result = read(with("bucket: 25 MiB", "servers: 3, accumulation: 4"));
  REQUIRE_MESSAGE(result.scenario, result.errors);
  CHECK(result.scenario->strategy.servers == 3);
  CHECK(result.scenario->strategy.accumulation == 4);
  CHECK(contains(read(with("bucket: 25 MiB", "servers: 9")).errors, "servers: 9 of 8 workers cannot be"));
  CHECK(contains(read(with("bucket: 25 MiB", "accumulation: 5")).errors,
                 "accumulation: a batch of 64 per worker does not divide into 5 micro-batches"));
  CHECK_FALSE(read(with("bucket: 25 MiB", "accumulation: 0")).scenario);
  // A key that belongs to another kind is not ignored in silence.
  CHECK(
      contains(result.warnings, "servers: has no effect beside 'kind: ddp'; it belongs to parameter_server"));
  CHECK(contains(
      read(with("kind: ddp, bucket: 25 MiB", "kind: parameter_server, servers: 2, algorithm: ring")).warnings,
      "algorithm: has no effect beside 'kind: parameter_server'"));
  CHECK_FALSE(contains(read(with("kind: ddp, bucket: 25 MiB", "kind: parameter_server, servers: 2")).warnings,
                       "servers"));
}

TEST_CASE("the batches of a schedule divide into micro-batches, or simulate refuses them as run does") {
  const auto errors = [](const std::string& schedule) {
    std::string text = with("bucket: 25 MiB", "accumulation: 4");
    const std::string batch = "batch: { per_worker: 64 }\n";
    text.erase(text.find(batch), batch.size());
    text.replace(text.find("job: { epochs: 90, "), 19, "job: { epochs: 90, schedule: " + schedule + ", ");
    return read(text).errors;
  };
  CHECK(errors("[{ from: 0 epoch, batch: 64 }]") == "");
  CHECK(contains(errors("[{ from: 0 epoch, batch: 64 }, { from: 2 epochs, batch: 48 }]"),
                 "accumulation: in phase 2 of the schedule a batch of 6 per worker does not divide into 4 "
                 "micro-batches"));
  CHECK(errors("[{ from: 0 epoch, batch: 64 }, { from: 2 epochs, batch: 48, workers: 4 }]") == "");
  CHECK(contains(errors("{ rule: padadamp, batch: 64, rate: 1 }"),
                 "accumulation: the batches of padadamp grow by single samples"));
}

TEST_CASE("other jobs on the cluster have workers of their own") {
  auto beside = [](const std::string& others) {
    return with("strategy:", "others: " + others + "\nstrategy:");
  };
  const auto got = read(beside("[{ gpus: { from: 1, to: 7, every: 2 }, batch: { per_worker: 32 } }]"));
  REQUIRE(got.scenario.has_value());
  const Scenario& ours = *got.scenario;
  CHECK(ours.cluster.topology.workers.size() == 4);
  CHECK(ours.cluster.topology.nodes == 2);
  CHECK(ours.cluster.topology.gpus_per_node == 2);
  CHECK(ours.batch_global == 4 * 64);
  REQUIRE(ours.others.size() == 1);
  const Scenario& theirs = *ours.others[0];
  CHECK(theirs.cluster.topology.workers.size() == 4);
  CHECK(theirs.cluster.topology.workers[0] != ours.cluster.topology.workers[0]);
  CHECK(theirs.batch_global == 4 * 32);
  CHECK(theirs.precision == ours.precision);
  CHECK(theirs.others.empty());
  CHECK(theirs.job == nullptr);
  CHECK(contains(read(beside("[{ gpus: { from: 0, to: 8 } }]")).errors, "not within the 8 workers"));
  CHECK(contains(read(beside("[{ gpus: { from: 0, to: 7 } }]")).errors, "leave this job no workers"));
  CHECK(contains(read(beside("[{ gpus: { from: 1, to: 2 } }, { gpus: { from: 2, to: 3 } }]")).errors,
                 "rank 2 belongs to another job already"));
  CHECK(contains(read(beside("[{ gpu: 3 }]")).errors, "gpu"));
  CHECK(contains(read(beside("[{ gpus: { from: 1, to: 1 }, model: resnet51 }]")).errors, "resnet50"));
}

TEST_CASE("step-time profiles: inline, from a file, with and without a model") {
  const std::string profile = "{ steps: [[32, 71 ms], [64, 130 ms]] }";
  const Read sorted = read(
      with(profile, "{ steps: [[64, 130 ms, 2 ms], [32, 71 ms]], backward_fraction: 0.67, launches: 1281 }"));
  REQUIRE_MESSAGE(sorted.scenario, sorted.errors);
  CHECK(sorted.scenario->step_times->points[0].batch == 32);
  CHECK(sorted.scenario->step_times->points[1].spread == approx(0.002));
  CHECK(sorted.scenario->step_times->backward_fraction_origin == Origin::measured);
  CHECK(sorted.scenario->step_times->launches == 1281);
  CHECK(contains(errors_with(profile, "{ steps: [[32, 71], [0, 1 ms], [32], 5, [1.5, 1 ms], [2, 0 s]] }"),
                 "s.yaml:3:25: steps: '71' has no unit"));
  const std::string all =
      errors_with(profile, "{ steps: [[0, 1 ms], [32], 5, [1.5, 1 ms], [2, 0 s], [3, 1 s], [3, 1 s]] }");
  CHECK(contains(all, "s.yaml:3:21: steps: a batch of 0 has no samples"));
  CHECK(contains(all, "s.yaml:3:31: steps: each entry is [batch, time]"));
  CHECK(contains(all, "s.yaml:3:37: steps: each entry is [batch, time]"));
  CHECK(contains(all, "s.yaml:3:41: steps: the batch '1.5' is not a whole number"));
  CHECK(contains(all, "s.yaml:3:57: steps: a step takes longer than 0 s"));
  CHECK(contains(all, "steps: the batch 3 is given twice"));
  CHECK(contains(errors_with(profile, "{ steps: [] }"), "steps: the list is empty"));
  CHECK(contains(errors_with(profile, "{ backward_fraction: 1.5 }"), "profile has no 'steps'"));

  const std::string no_model = with("model: { parameters: 60880896 }\n", "");
  CHECK(read(no_model).errors ==
        "s.yaml:2:10: a step-time profile with 8 workers needs a model or the size of its gradients, as in "
        "'gradients: 94 MB'\n");
  const Read one = read(no_model, {"cluster.nodes=1", "cluster.gpus_per_node=1"});
  REQUIRE_MESSAGE(one.scenario, one.errors);
  CHECK_FALSE(one.scenario->model);
  const Read sized = read(no_model, {"profile.gradients=94 MB"});
  REQUIRE_MESSAGE(sized.scenario, sized.errors);
  CHECK(sized.scenario->step_times->gradient_bytes == 94e6);
}

TEST_CASE(
    "the points of a grid share the models and profiles that they name, unless their sequence differs") {
  Catalog keeping({FORETRAIN_SOURCE_DIR});
  keeping.keep_profiles();
  const auto read_with = [&](const char* model, const Overrides& settings) {
    Diagnostics diagnostics;
    auto scenario =
        parse_scenario(with("{ parameters: 60880896 }", model), "s.yaml", keeping, settings, diagnostics);
    diagnostics.throw_errors();
    return scenario->model;
  };
  const auto first = read_with("resnet50", {});
  CHECK(read_with("resnet50", {"cluster.nodes=4"}) == first);
  CHECK(read_with("vgg16", {}) != first);
  const auto longer = read_with("gpt2-small", {"sequence=1024"});
  CHECK(read_with("gpt2-small", {"sequence=512"})->sequence == 512);
  CHECK(read_with("gpt2-small", {"sequence=1024"}) == longer);
  CHECK(longer->sequence == 1024);
}

TEST_CASE("names resolve to what ships, and mistyped ones to a hint") {
  const std::string model = "{ parameters: 60880896 }";
  const Read result = read(with(model, "resnet50"));
  REQUIRE_MESSAGE(result.scenario, result.errors);
  CHECK(result.scenario->model->parameter_count() == 25'557'032);
  CHECK(contains(errors_with(model, "resnet-50"), "s.yaml:2:8: unknown model 'resnet-50' (what ships: "));
  CHECK(contains(errors_with(model, "resnet-50"), "did you mean 'resnet50'?"));
  CHECK(contains(errors_with(model, "./absent.yaml"),
                 "s.yaml:2:8: the model file './absent.yaml' is not there"));
  CHECK(
      contains(errors_with(model, "{ parameters: many }"), "s.yaml:2:22: parameters: 'many' is not a whole"));
  CHECK(contains(errors_with("ethernet-nodes", "ethernet-node"), "s.yaml:7:13: "));
  CHECK(contains(errors_with("ethernet-nodes", "ethernet-node"), "did you mean 'ethernet-nodes'?"));
  CHECK(contains(errors_with("{ steps: [[32, 71 ms], [64, 130 ms]] }", "nothing-like-it"),
                 "s.yaml:3:10: unknown profile 'nothing-like-it'"));
  CHECK(contains(read(with(model, "resnet50"), {"sequence=1024"}).errors,
                 "--set sequence=1024: sequence: the model 'resnet50' has none"));
}

TEST_CASE("measured profiles: a name, a file beside the scenario, or a list of which later ones win") {
  const fs::path folder = fs::temp_directory_path() / ("foretrain_scenario_" + std::to_string(getpid()));
  fs::create_directories(folder / "data/profiles");
  Profile fabric = example_profile();
  fabric.name = "fabric";
  fabric.operators.clear();
  fabric.steps.clear();
  fabric.optimizers.clear();
  fabric.step_work.clear();
  fabric.interference.clear();
  Profile other = example_profile();
  other.runs[0].machine.gpu = "NVIDIA H200";
  write_profile(example_profile(), folder / "data/profiles/h100.json.gz");
  write_profile(fabric, folder / "fabric.json");
  write_profile(other, folder / "other.json");
  std::ofstream(folder / "steps.yaml") << "steps: [[32, 71 ms]]\n";
  const Catalog catalog({folder / "data", FORETRAIN_SOURCE_DIR});
  auto read_with = [&](const std::string& profile, const Overrides& overrides = {}) {
    std::ofstream(folder / "s.yaml") << with("{ steps: [[32, 71 ms], [64, 130 ms]] }", profile);
    Overrides all{"model=resnet50"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return read_scenario(folder / "s.yaml", catalog, all);
  };
  CHECK(read_with("h100").profile->name == "h100");
  CHECK(read_with("fabric.json").profile->collectives.size() == 1);
  CHECK(read_with("[h100, fabric.json]").profile->name == "h100 + fabric");
  CHECK(read_with("[h100, fabric.json]").profile_names == std::vector<std::string>{"h100", "fabric"});
  CHECK(read_with("steps.yaml").step_times->points.size() == 1);
  const std::string file = (folder / "s.yaml").string();
  CHECK_THROWS_WITH_AS(read_with("[h100, other.json]"), doctest::Contains((file + ":3:10: profiles").c_str()),
                       Error);
  CHECK_THROWS_WITH_AS(read_with("[h100, steps.yaml]"),
                       doctest::Contains((file + ":3:17: profile: a list holds").c_str()), Error);
  CHECK_THROWS_WITH_AS(read_with("h1000"), doctest::Contains("did you mean 'h100'?"), Error);
  CHECK_THROWS_WITH_AS(
      read_with("h100", {"model={ parameters: 1000 }"}),
      doctest::Contains("--set model={ parameters: 1000 }: model: a mere list of parameters"), Error);
  CHECK_THROWS_WITH_AS(read_scenario(folder / "absent.yaml", catalog), doctest::Contains("no such file"),
                       Error);
  fs::remove_all(folder);
}

TEST_CASE("an all-reduce by bcube is one of workers that are CPUs") {
  const auto bcube = [](const std::string& cluster) {
    return read(
        "model: { parameters: 1000 }\nprofile: { steps: [[32, 71 ms]] }\nbatch: { per_worker: 32 }\n"
        "cluster: " +
        cluster + "\nstrategy: { algorithm: bcube }\n");
  };
  const Read cpus = bcube("{ topology: one-node, workers: 4 }");
  REQUIRE_MESSAGE(cpus.scenario, cpus.errors);
  CHECK(cpus.scenario->strategy.algorithm == "bcube");
  CHECK(contains(bcube("{ topology: nvlink-node, gpus_per_node: 4 }").errors,
                 "s.yaml:5:24: algorithm: bcube is Gloo's, by which workers that are CPUs exchange"));
}

TEST_CASE("a profile of CPU workers holds for the threads that they had") {
  const fs::path folder = fs::temp_directory_path() / ("foretrain_threads_" + std::to_string(getpid()));
  fs::create_directories(folder);
  Profile profile = example_profile();
  profile.device = "cpu";
  profile.runs[0].machine.multiprocessors = 2;
  write_profile(profile, folder / "cpu.json");
  const auto warnings_of = [&](const std::string& host) {
    Diagnostics diagnostics;
    const auto made = parse_scenario(
        "model: resnet50\nprofile: " + (folder / "cpu.json").string() +
            "\nprecision: bf16\nbatch: { per_worker: 64 }\ncluster: { topology: one-node, workers: 1 }\n" +
            host,
        "s.yaml", shipped(), {}, diagnostics);
    std::string text;
    for (const Diagnostic& finding : diagnostics.errors()) text += finding.text() + "\n";
    for (const Diagnostic& finding : diagnostics.warnings()) text += finding.text() + "\n";
    return text;
  };
  CHECK(warnings_of("host: { threads: 2 }\n") == "");
  CHECK(contains(warnings_of("host: { threads: 4 }\n"),
                 "s.yaml:6:18: host.threads: 4, but the profile measured workers of 2 threads"));
  CHECK(contains(warnings_of(""), "host.threads: 1, but the profile measured workers of 2 threads"));
  fs::remove_all(folder);
}

TEST_CASE("--set is applied before the check and named by what it breaks") {
  const Read result = read(valid, {"cluster.nodes=4", "batch.global=1024", "strategy.data.kind=independent",
                                   "cluster.network.bandwidth=25 Gbit/s", "job=null"});
  REQUIRE_MESSAGE(result.scenario, result.errors);
  CHECK(result.scenario->cluster.topology.workers.size() == 16);
  CHECK(result.scenario->batch_per_worker == 64);
  CHECK(result.scenario->strategy.kind == StrategyKind::independent);
  CHECK_FALSE(result.scenario->job);
  CHECK(input_of(*result.scenario, "cluster.network.bandwidth")->value == "25 Gbit/s");

  CHECK(contains(read(valid, {"cluster.nods=4"}).errors, "--set cluster.nods=4: unknown key 'nods'"));
  CHECK(contains(read(valid, {"cluster.nods=4"}).errors, "did you mean 'nodes'?"));
  CHECK(read(valid, {"batch.global=7"}).errors ==
        "--set batch.global=7: global: 7 samples do not divide evenly among 8 workers; nearest is 8\n");
  CHECK(read(valid, {"nodes"}).errors == "--set nodes: takes PATH=VALUE, as in --set cluster.nodes=4\n");
  CHECK(contains(read(valid, {"precision=bf17", "optimizer.kind=sdg"}).errors, "--set precision=bf17: "));
  CHECK(contains(read(valid, {"precision=bf17", "optimizer.kind=sdg"}).errors, "did you mean 'sgd'?"));
}

TEST_CASE("a truncated or damaged scenario never crashes the reader") {
  for (std::size_t length = 0; length <= valid.size(); ++length) read(valid.substr(0, length));
  RandomStream random(11);
  const std::string letters = "[]{}:,-#\"' \n0123456789eGMKis/";
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = valid;
    for (int change = 0; change < 3; ++change) {
      damaged[random.next() % damaged.size()] = letters[random.next() % letters.size()];
    }
    read(damaged);
  }
}

TEST_CASE("a cluster of two types of GPU, each by its profile") {
  auto mixed = [](const std::string& items, const std::string& profile) {
    std::string text = with("  nodes: 2\n", "  nodes: 2\n  other_gpus: " + items + "\n");
    text.replace(text.find("model: { parameters: 60880896 }"), 31, "model: resnet50");
    const std::string steps = "profile: { steps: [[32, 71 ms], [64, 130 ms]] }";
    return profile.empty() ? text : text.replace(text.find(steps), steps.size(), "profile: " + profile);
  };
  const Read made = read(mixed("[{ from: 4, to: 7, profile: h200 }]", "h100"));
  CHECK(made.errors == "");
  REQUIRE(made.scenario);
  REQUIRE(made.scenario->gpu_types);
  CHECK(made.scenario->gpu_types->of_worker == std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(made.scenario->gpu_types->profiles[0]->name == "h200");
  CHECK(read(mixed("[{ from: 4, to: 8, profile: h200 }]", "h100")).errors ==
        "s.yaml:9:16: other_gpus: ranks 4 to 8 are not within the 8 workers of the cluster\n");
  CHECK(read(mixed("[{ from: 4, to: 6, profile: h200 }, { from: 6, to: 7, profile: h200 }]", "h100"))
            .errors.find("ranks 6 to 7 stand in a range before") != std::string::npos);
  CHECK(read(mixed("[{ from: 4, profile: h201 }]", "h100")).errors.find("did you mean 'h200'?") !=
        std::string::npos);
  CHECK(read(mixed("[{ from: 4 }]", "h100")).errors.find("no 'profile'") != std::string::npos);
  CHECK(read(mixed("[{ from: 4, profile: h200 }]", "")).errors.find("knows one type of GPU") !=
        std::string::npos);
}

TEST_CASE("keys that contradict each other are said") {
  const std::string steps = "profile: { steps: [[32, 71 ms], [64, 130 ms]] }";
  CHECK(
      read(with(steps, "profile: { steps: [[32, 71 ms], [64, 130 ms]], gradients: 1 kB }")).warnings ==
      "s.yaml:3:10: profile.gradients: 1.00 kB beside the model 's', whose gradients of 244 MB are taken\n");
  CHECK(read(with(steps, "profile: { steps: [[32, 71 ms], [64, 130 ms]], gradients: 244 MB }")).warnings ==
        "");
  CHECK(read(with(steps, "profile: { steps: [[32, 71 ms], [64, 30 ms]] }")).warnings ==
        "s.yaml:3:19: steps: a batch of 64 takes less time than one of 32: is that so?\n");
  CHECK(errors_with("job: { epochs: 90,", "job: { epochs: 90, workers: { fixed: 9 },") ==
        "s.yaml:14:38: fixed: 9 workers, the cluster has 8\n");
  CHECK(errors_with("precision: bf16\n", "precision: bf16\nobserved: { gpu_busy: 98 }\n")
            .find("it must be at most 1") != std::string::npos);
  const std::string on_cpus =
      "model: resnet50\nprofile: h100\nprecision: bf16\nbatch: { per_worker: 64 }\n"
      "cluster: { topology: one-node, workers: 2 }\n";
  CHECK(
      read(on_cpus).warnings.find("the workers of 'one-node' are CPUs and exchange by Gloo, the profile was "
                                  "measured on NVIDIA H100") != std::string::npos);
}

TEST_CASE("a profile is called by its file") {
  const Read made = read(
      "model: resnet50\nprofile: [h100, two-nodes-tcp-10-gbit]\nprecision: bf16\nbatch: { per_worker: 64 }\n"
      "cluster: { topology: nvlink-node, gpus_per_node: 1 }\n");
  REQUIRE(made.scenario);
  CHECK(made.scenario->profile->name == "h100 + two-nodes-tcp-10-gbit");
}

TEST_CASE("a profile of another GPU beside a workload is said, one of collectives alone is none") {
  const std::string text = "workload: " FORETRAIN_SOURCE_DIR
                           "/validation/kineto/resnet50.json.gz\n"
                           "cluster: { topology: nvlink-node, gpus_per_node: 2 }\nprofile: ";
  const Read h100 = read(text + "h100\n"), h200 = read(text + "h200\n"),
             network = read(text + "two-nodes-tcp-10-gbit\n");
  REQUIRE(h100.scenario);
  REQUIRE(h200.scenario);
  const std::string traced = device_of(*h200.scenario->profile);
  const Read& other = traced == "NVIDIA H200" ? h100 : h200;
  const Read& same = traced == "NVIDIA H200" ? h200 : h100;
  CHECK(other.warnings.find("the workload was traced on " + traced) != std::string::npos);
  CHECK(same.warnings == "");
  CHECK(network.warnings == "");
}
