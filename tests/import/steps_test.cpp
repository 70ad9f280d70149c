#include "sim/import/steps.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/imports.hpp"

using namespace foretrain;
using test::Finished;
using test::holds;
using test::run_foretrain;
using test::TemporaryFolder;

namespace {

std::string imported(std::string_view csv, const std::string& target = "out.yaml") {
  ImportOptions options;
  options.file = "t.csv";
  options.target = target;
  return import_steps(csv, options).content;
}

std::string refusal(std::string_view csv) {
  return test::refusal_of([&] { imported(csv); });
}

}  // namespace

TEST_CASE("a CSV of batch and seconds, however it is written") {
  const char* steps = "steps: [[32, 71 ms], [64, 130 ms]]";
  for (const char* csv :
       {"batch,seconds\n32,0.071\n64,0.130\n",
        "\xEF\xBB\xBF"
        "batch,seconds\r\n64,0.13\r\n\r\n32,0.071\r\n",
        "32,0.071\n64,0.13", "# measured\nstep_ms;gpu;batch\n71;\"H100, SXM\";32\n130;x;64\n",
        "batch size\ttime (ms)\n32\t71\n64\t130\n", "Batch, step\n32, 71 ms\n64, 130 ms\n",
        "\"batch\",\"time_us\"\n\"32\",\"7.1e4\"\n\"64\",\"130000\"\n"}) {
    CAPTURE(csv);
    CHECK(holds(imported(csv), steps));
  }
  CHECK(holds(imported("batch,seconds,std\n32,0.071,0.001\n"), "[[32, 71 ms, 1 ms]]"));
  CHECK(holds(imported("batch,seconds,std\n32,0.071,\n"), "[[32, 71 ms]]"));
}

TEST_CASE("a batch measured several times: its median and that median's standard error") {
  // 1.2533 sqrt(2e-6 / (3 - 1) / 3) = 0.7236e-3
  CHECK(holds(imported("batch,seconds\n8,0.010\n8,0.012\n8,0.011\n"), "[[8, 11 ms, 723.59"));
}

TEST_CASE("a spread below a picosecond is none, and what no file can hold is refused before it is written") {
  CHECK(holds(imported("32,0.071\n32,0.071000000000000001\n"), "steps: [[32, 71 ms]]"));
  ImportOptions options;
  options.file = "t.csv";
  options.target = "out.yaml";
  check_readable({"steps: [[32, 71 ms]]\n", "", {}}, options);
  const std::string why = test::refusal_of([&] {
    check_readable({"steps: [[32, 9e11 ms]]\n", "", {}}, options);
  });
  CHECK(holds(why, "t.csv: what it says makes no file that can be read: steps: '9e11 ms' is too large"));
}

TEST_CASE("all that is wrong in a CSV, with its lines") {
  const std::string all = refusal("batch,seconds\n32,x\n-1,0.1\n8\n1.5,0.1\n4,0\n4,1e9\n4,nan\n");
  for (const char* part : {"t.csv:2: the time 'x' is no number", "t.csv:3: the batch -1",
                           "t.csv:4: the time is missing", "t.csv:5: the batch 1.5", "t.csv:6: a step of 0 s",
                           "t.csv:7: a step of 1000000000 s", "t.csv:8: the time 'nan' is no number"}) {
    CAPTURE(part);
    CHECK(holds(all, part));
  }
  CHECK(holds(refusal("size,loss\n1,2\n"), "needed are a column 'batch' and a column 'seconds'"));
  CHECK(holds(refusal(""), "has no rows"));
  CHECK(holds(refusal("batch,seconds\n"), "has no rows"));
}

TEST_CASE("what was imported is simulated, YAML and JSON alike") {
  const TemporaryFolder folder;
  const std::string csv = folder.write("t.csv", "batch,seconds\n32,0.071\n64,0.130\n128,0.251\n");
  for (const char* name : {"steps.yaml", "steps.json"}) {
    CAPTURE(name);
    const Finished made =
        run_foretrain({"import", "steps", csv, "-o", folder.path(name), "--gradients", "94 MB"});
    CHECK(made.status == 0);
    CHECK(holds(made.err, "3 rows, 3 batches from 32 to 128"));
    CHECK(run_foretrain({"check", folder.path(name)}).status == 0);
    const std::string scenario = folder.write(
        "s.yaml", std::string("profile: ") + name +
                      "\nbatch: { per_worker: 64 }\ncluster: { topology: one-node, workers: 1 }\n");
    const Finished one = run_foretrain({"simulate", scenario, "--csv", "-"});
    CHECK(one.status == 0);
    CHECK(holds(one.out, "0.1299999"));
    CHECK(run_foretrain({"simulate", scenario, "--set", "cluster.workers=2"}).status == 0);
  }
}

TEST_CASE("import as a user types it wrong") {
  const TemporaryFolder folder;
  const std::string csv = folder.write("t.csv", "32,0.071\n");
  CHECK(run_foretrain({"import", "stepps", csv, "-o", "-"}).status == 2);
  CHECK(holds(run_foretrain({"import", "stepps", csv, "-o", "-"}).err, "did you mean 'steps'"));
  CHECK(run_foretrain({"import", "steps", folder.path("none.csv"), "-o", "-"}).status == 2);
  CHECK(run_foretrain({"import", "steps", csv}).status == 2);
  const Finished wrong =
      run_foretrain({"import", "steps", csv, "-o", folder.path("a.yaml"), "--network", "1 Gbit/s"});
  CHECK(wrong.status == 2);
  CHECK(holds(wrong.err, "import steps: takes no --network"));
  const std::string bad = folder.write("bad.csv", "batch,seconds\nx,1\n");
  CHECK(run_foretrain({"import", "steps", bad, "-o", folder.path("a.yaml")}).status == 2);
  CHECK(folder.files() == std::vector<std::string>{"bad.csv", "t.csv"});
  test::RunOptions input;
  input.input = "batch,seconds\n32,0.071\n";
  CHECK(holds(run_foretrain({"import", "steps", "-", "-o", "-"}, input).out, "[[32, 71 ms]]"));
}

TEST_CASE("that bare numbers are taken for seconds is said where nothing else says it") {
  const auto notes = [](std::string_view csv) {
    ImportOptions options;
    options.file = "t.csv";
    return import_steps(csv, options).notes;
  };
  const std::vector<std::string> said{"no unit is said of the times: taken for seconds"};
  CHECK(notes("batch,time\n32,0.071\n64,0.13\n") == said);
  CHECK(notes("32,0.071\n64,0.13\n") == said);
  CHECK(notes("batch,time\n32,71 ms\n64,130 ms\n").empty());
  CHECK(notes("batch,step_ms\n32,71\n64,130\n").empty());
}
