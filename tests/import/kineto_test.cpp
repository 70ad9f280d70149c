#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/import/importer.hpp"
#include "sim/input/workload_json.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/imports.hpp"
#include "tests/support/trace_text.hpp"

using namespace foretrain;
using foretrain::test::approx;
using test::Finished;
using test::holds;
using test::run_foretrain;
using test::TemporaryFolder;
using test::TraceText;

namespace {

const Importer* importer() {
  return test::importer_named("kineto");
}

struct Read {
  Workload workload;
  std::string notes;
};

Read imported(const std::string& text, ImportOptions options = {}) {
  options.file = "t.json";
  options.target = "job.json";
  std::size_t at = 0;
  const Imported made = importer()->streamed(
      [&](std::span<char> buffer) {
        const std::size_t count =
            std::min({buffer.size(), text.size() - at, std::size_t{777}});  // pieces cut events anywhere
        std::copy_n(text.begin() + static_cast<std::ptrdiff_t>(at), count, buffer.begin());
        at += count;
        return count;
      },
      options);
  Diagnostics findings;
  auto workload = parse_workload(made.content, "job.json", findings);
  findings.throw_errors();
  REQUIRE(workload);
  Read out{std::move(*workload), {}};
  for (const std::string& note : made.notes) out.notes += note + '\n';
  return out;
}

std::string refusal(const std::string& text, bool strict = true) {
  ImportOptions options;
  options.strict = strict;
  return test::refusal_of([&] { imported(text, options); });
}

double device_of_step(const Workload& workload) {
  double sum = workload.profile.optimizers.at(0).update.device.median;
  for (const OperatorEntry& entry : workload.profile.operators)
    for (const PassTiming& pass : entry.passes) sum += pass.device.median;
  return sum;
}

}  // namespace

TEST_CASE("a trace becomes the items of a step, its gradients and its batch") {
  if (importer() == nullptr) return;
  const Read read = imported(TraceText().text());
  const Workload& workload = read.workload;
  CHECK(workload.batch == 16);
  CHECK(workload.precision == Precision::bf16);
  CHECK(workload.model.name == "job");
  REQUIRE(workload.model.layers.size() == 5);  // the input, two forward, two backward
  CHECK(workload.model.layers[1].name == "f1 conv2d");
  CHECK(workload.model.layers[3].name == "b2 ConvolutionBackward0");
  CHECK(workload.model.layers[4].name == "b1 AddmmBackward0");
  REQUIRE(workload.model.parameters.size() == 2);
  CHECK(workload.model.parameters[0].elements == 8 * 3 * 3 * 3);  // the last to be ready
  CHECK(workload.model.parameters[0].layer == 3);
  CHECK(workload.model.parameters[1].elements == 80);
  CHECK(device_of_step(workload) == approx(7.5e-3));
  CHECK(workload.profile.runs.at(0).machine.gpu == "NVIDIA Test");
}

TEST_CASE("the host is scaled to the step that is given, else known between bounds alone") {
  if (importer() == nullptr) return;
  ImportOptions options;
  options.step = 9e-3;
  const Workload given = imported(TraceText().text(), options).workload;
  CHECK(given.profile.steps.at(0).host.median == approx(9e-3));
  CHECK(given.profile.steps.at(0).host.high == approx(9e-3));
  const Read open = imported(TraceText().text());
  const Sample& host = open.workload.profile.steps.at(0).host;
  CHECK(host.low == 0);
  CHECK(host.high == approx(10e-3));
  CHECK(host.median < 10e-3);
  CHECK(holds(open.notes, "no --step"));
  options.step = 5e-3;
  CHECK(holds(imported(TraceText().text(), options).notes, "is shorter than"));
}

TEST_CASE("damage is repaired or dropped and counted; --strict stops with the offset") {
  if (importer() == nullptr) return;
  const std::string good = TraceText().text();
  CHECK(refusal(good).empty());
  const double device = device_of_step(imported(good).workload);
  struct Damage {
    const char* what;
    std::string before, after, note;
  };
  const std::string kernel = "\"name\": \"sm90_gemm_bf16_2\"";
  for (const Damage& damage : {
           Damage{"bad UTF-8", kernel, "\"name\": \"sm90_\xFF\xC0gemm\"", "1 events are not UTF-8"},
           {"a control character", kernel, "\"name\": \"sm90_\x01gemm\"", "1 events hold control characters"},
           {"no closing quote", "\"tid\": 1,\n    \"ts\": 1001100.000",
            "\"tid\": \"1,\n    \"ts\": 1001100.000", "1 events lack a closing quote"},
           {"a string id", "\"correlation\": 2}", "\"correlation\": \"2\"}", "1 events have numbers as text"},
       }) {
    CAPTURE(damage.what);
    std::string text = good;
    REQUIRE(holds(text, damage.before));
    text.replace(text.find(damage.before), damage.before.size(), damage.after);
    const Read read = imported(text);
    CHECK(holds(read.notes, damage.note));
    CHECK(device_of_step(read.workload) == approx(device));
    CHECK(holds(refusal(text), "t.json: byte "));
  }
  std::string text = good;
  const std::string extra =
      "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, \"tid\": 7, \"ts\": "
      "1000300, \"dur\": ";
  const std::size_t list = text.find("[\n  {\n") + 2;
  text.insert(list, extra + "-5\n  },\n" + extra + "1e300\n  },\n" + extra + "NaN\n  },\n" +
                        "  {\"ph\": \"X\", broken},\n");
  const Read read = imported(text);
  CHECK(holds(read.notes, "1 events have a negative duration"));
  CHECK(holds(read.notes, "2 events last longer than"));
  CHECK(holds(read.notes, "1 events could not be read"));
  CHECK(device_of_step(read.workload) == approx(device));
  CHECK(refusal(text) != "");
}

TEST_CASE("traces that are cut, bare, or without marks, rank or shapes") {
  if (importer() == nullptr) return;
  const std::string good = TraceText().text();
  const std::string cut = good.substr(0, good.size() - 400);
  CHECK(holds(imported(cut).notes, "ends within its list"));
  CHECK(holds(refusal(cut), "ends within its list"));
  const std::size_t list = good.find("[\n  {"), end = good.find("],\n  \"traceName\"");
  const Read bare = imported(good.substr(list, end - list + 1));
  CHECK(bare.workload.model.layers.size() == 5);
  CHECK(holds(bare.notes, "does not say its rank"));
  TraceText unmarked;
  std::erase_if(unmarked.events(), [](const std::string& each) { return holds(each, "ProfilerStep"); });
  const Read read = imported(unmarked.text());
  CHECK(holds(read.notes, "no step marks"));
  CHECK(read.workload.model.layers.size() == 5);
  TraceText shapeless;
  for (std::string& each : shapeless.events())
    if (const std::size_t at = each.find(",\"Input Dims\""); at != std::string::npos)
      each.erase(at, each.find("\n    }") - at);
  CHECK(holds(imported(shapeless.text()).notes, "record_shapes=True"));
  CHECK(imported(shapeless.text()).workload.model.parameters.empty());
  CHECK(holds(refusal("", false), "is empty"));
  CHECK(holds(refusal("{}", false), "no list 'traceEvents'"));
  CHECK(holds(refusal("{\"traceEvents\": []}", false), "no step with a kernel"));
  CHECK(holds(refusal(good.substr(0, good.find("[\n  {") + 1), false), "no step with a kernel"));
}

TEST_CASE("what was imported is simulated on one worker and under DDP on more") {
  const TemporaryFolder folder;
  const std::string trace = folder.write("trace.json", TraceText().text());
  const Finished made =
      run_foretrain({"import", "kineto", trace, "-o", folder.path("job.json"), "--step", "9 ms"});
  if (importer() == nullptr) {
    CHECK(made.status == 4);
    return;
  }
  CAPTURE(made.err);
  CHECK(made.status == 0);
  CHECK(holds(made.err, "2 steps of 6 kernels, 7.50 ms on the device"));
  CHECK(run_foretrain({"check", folder.path("job.json")}).status == 0);
  const std::string scenario =
      folder.write("s.yaml", "workload: job.json\ncluster: { topology: nvlink-node, gpus_per_node: 1 }\n");
  const Finished one = run_foretrain({"simulate", scenario, "--json", "-"});
  CAPTURE(one.err);
  REQUIRE(one.status == 0);
  const auto result = nlohmann::json::parse(one.out);
  CHECK(result.at("step").at("time_s").get<double>() == approx(9e-3).epsilon(0.01));
  CHECK(result.at("batch").at("per_worker") == 16);
  CHECK(result.at("kind") == "traced work, one GPU");
  const auto& inputs = result.at("inputs");
  CHECK_FALSE(inputs.contains("precision"));
  CHECK(inputs.at("workload.precision").at("value") == "bf16");
  CHECK(inputs.at("workload.precision").at("origin") == "measured");
  CHECK(inputs.at("workload.batch").at("value") == "16");
  const Finished two =
      run_foretrain({"simulate", scenario, "--set", "cluster.gpus_per_node=2", "--json", "-"});
  REQUIRE(two.status == 0);
  const auto ddp = nlohmann::json::parse(two.out);
  CHECK(ddp.at("communication").at("bytes_per_worker") == 4 * (216 + 80));
  CHECK(ddp.at("step").at("time_s").get<double>() > 9e-3);
  const Finished beside = run_foretrain({"simulate", scenario, "--set", "batch.per_worker=8"});
  CHECK(beside.status == 2);
  CHECK(holds(beside.err, "stands beside workload"));
  // Without the step: from kernels alone to as traced.
  CHECK(run_foretrain({"import", "kineto", trace, "-o", folder.path("job.json")}).status == 0);
  const auto open = nlohmann::json::parse(run_foretrain({"simulate", scenario, "--json", "-"}).out);
  CHECK(open.at("step").at("low_s").get<double>() < 7.6e-3);
  CHECK(open.at("step").at("high_s").get<double>() > 9.9e-3);
}

TEST_CASE(
    "a workload whose names or batch are no longer those of its times is refused, and says which they are") {
  const std::string seed = test::read_file(FORETRAIN_SOURCE_DIR "/tests/fuzz/seeds/workload/kineto.json");
  const auto errors_with = [&](const std::string& from, const std::string& to) {
    std::string text = seed;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    Diagnostics findings;
    CHECK_FALSE(parse_workload(text, "w.json", findings));
    std::string all;
    for (const Diagnostic& each : findings.errors()) all += each.text() + '\n';
    return all;
  };
  Diagnostics none;
  CHECK(parse_workload(seed, "w.json", none));
  CHECK(errors_with("\"name\": \"kineto\"", "\"name\": \"renamed\"") ==
        "w.json: /name: is 'renamed', and the times of its profile are of 'kineto'\n");
  CHECK(errors_with("\"precision\": \"bf16\"", "\"precision\": \"fp16\"") ==
        "w.json: /precision: is 'fp16', and the times of its profile are of 'bf16'\n");
  CHECK(errors_with("\"batch\": 16,\n", "\"batch\": 32,\n") ==
        "w.json: /batch: is '32', and the times of its profile are of '16'\n");
  CHECK(errors_with("\"f2 linear\",", "\"f2 conv\",") ==
        "w.json: /layers/1: 'f2 conv' has no times in the profile\n");
  CHECK(holds(errors_with("\"context\":\"kineto\"", "\"context\":\"other\""), "are of 'kineto', 'other'"));
}

TEST_CASE("a trace of a rank among several gives the collectives, and DDP's copies apart from the layers") {
  if (importer() == nullptr) return;
  const Read read = imported(TraceText(4, 4).text());
  const Workload& workload = read.workload;
  CHECK(workload.model.layers.size() == 5);  // as of one GPU
  CHECK(workload.model.parameters.size() == 2);
  CHECK(device_of_step(workload) == approx(7.5e-3));
  REQUIRE(workload.profile.collectives.size() == 1);
  const CollectiveEntry& reduced = workload.profile.collectives.front();
  CHECK(reduced.kind == "all_reduce");
  CHECK(reduced.ranks == 4);
  CHECK(reduced.nodes == 1);
  CHECK(reduced.element == "fp32");
  CHECK(reduced.bytes == 4 * (216 + 80));
  CHECK(reduced.time.median == approx(300e-6));  // the other one waited
  REQUIRE(workload.profile.step_work.size() == 1);
  CHECK(workload.profile.step_work[0].what == "gradient_copies");
  CHECK(workload.profile.step_work[0].timing.device.median == approx(20e-6));  // each way
  CHECK(workload.profile.step_work[0].timing.launches == 2);
}

TEST_CASE("collectives of more ranks than their host has GPUs went over a network that the user names") {
  if (importer() == nullptr) return;
  const std::string trace = TraceText(4, 2).text();
  const Read unnamed = imported(trace);
  CHECK(unnamed.workload.profile.collectives.empty());
  CHECK(holds(unnamed.notes, "2 collectives are of more ranks than the 2 GPUs"));
  ImportOptions options;
  options.network = "10 Gbit/s tcp";
  const Read named = imported(trace, options);
  REQUIRE(named.workload.profile.collectives.size() == 1);
  const CollectiveEntry& reduced = named.workload.profile.collectives.front();
  CHECK(reduced.nodes == 2);
  CHECK(reduced.line_rate == approx(1.25e9));
  CHECK(reduced.network != "nvlink");
}

TEST_CASE("a trace of four GPUs predicts one, two and four of them") {
  if (importer() == nullptr) return;
  const TemporaryFolder folder;
  const std::string trace = folder.write("trace.json", TraceText(4, 4).text());
  // Kernels, copies and what is not hidden of the all-reduce fill the step: the host has time left.
  const Finished made =
      run_foretrain({"import", "kineto", trace, "-o", folder.path("job.json"), "--step", "7.84 ms"});
  REQUIRE(made.status == 0);
  CHECK(holds(made.err,
              "is bound by the device (7.54 ms of kernels and 300 us of collectives with none beside)"));
  const auto step_on = [&](int gpus) {
    const std::string scenario = folder.write(
        "s.yaml",
        fmt::format("workload: job.json\ncluster: {{ topology: nvlink-node, gpus_per_node: {} }}\n", gpus));
    const Finished run = run_foretrain({"simulate", scenario, "--json", "-"});
    REQUIRE(run.status == 0);
    const auto result = nlohmann::json::parse(run.out);
    CHECK(result.at("warnings").empty());
    return result.at("step").at("time_s").get<double>();
  };
  CHECK(step_on(1) == approx(7.5e-3).epsilon(0.001));
  CHECK(step_on(4) == approx(7.84e-3).epsilon(0.002));
  const double two = step_on(2);
  CHECK(two > 7.54e-3);
  CHECK(two < 8e-3);
}
