// tools/foretrain_record.py over a PyTorch that is faked: what it writes is a record that our reader takes.
#include <doctest/doctest.h>

#include "execute/run_record_json.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;
using test::Finished;
using test::TemporaryFolder;

namespace {

const std::string source = FORETRAIN_SOURCE_DIR;

bool has_python() {
  return test::run_command({"sh", "-c", "command -v python3"}).status == 0;
}

Finished run_python(const TemporaryFolder& folder, const std::string& body) {
  const std::string script =
      folder.write("job.py",
                   "import torch\nfrom types import SimpleNamespace\n"
                   "from foretrain_record import Recorder\n"
                   "class Net:\n"
                   "  def named_parameters(self):\n"
                   "    return [('w', torch.Parameter(4, 3)), ('b', torch.Parameter(4))]\n"
                   "  def parameters(self):\n"
                   "    return [p for n, p in self.named_parameters()]\n"
                   "class DistributedDataParallel:\n"
                   "  module = Net()\n"
                   "OUT = '" +
                       folder.path("run.json.gz") + "'\n" + body);
  test::RunOptions options;
  options.environment = {"PYTHONPATH=" + source + "/tools:" + source + "/tests/tools/fake_torch",
                         "PYTHONDONTWRITEBYTECODE=1"};
  return test::run_command({"python3", script}, options);
}

RunRecord record_in(const TemporaryFolder& folder) {
  Diagnostics diagnostics;
  const auto record = read_run_record(folder.path("run.json.gz"), diagnostics);
  diagnostics.throw_errors();
  return *record;
}

// Quick: PyTorch is looked for, not loaded.
bool has_torch() {
  return test::run_command(
             {"python3", "-c",
              "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"})
             .status == 0;
}

}  // namespace

TEST_CASE("three lines record a job of one GPU" * doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  folder.write("job.yaml", "model: resnet50\n");
  const Finished done =
      run_python(folder, "recorder = Recorder(Net(), batch_per_worker=64, out=OUT, scenario='" +
                             folder.path("job.yaml") +
                             "')\n"
                             "for i in range(150):\n"
                             "  recorder.step(torch.Tensor(150.0 - i))\n");
  REQUIRE_MESSAGE(done.status == 0, done.err);
  const RunRecord record = record_in(folder);
  CHECK(record.complete);
  CHECK(record.source == "pytorch");
  CHECK(record.scenario_name == "run");
  CHECK(record.scenario_yaml == "model: resnet50\n");
  CHECK(record.model == "net");
  CHECK(record.precision == Precision::fp32);
  CHECK(record.batch_per_worker == 64);
  CHECK(record.workers == 1);
  CHECK(record.versions.at("torch") == "2.0.fake");
  REQUIRE(record.parameters.size() == 2);
  CHECK(record.parameters[0].name == "w");
  CHECK(record.parameters[0].shape == std::vector<std::int64_t>{4, 3});
  CHECK(record.parameters[0].element == "fp32");
  CHECK(record.machine.gpu == "Fake GPU");
  CHECK(record.machine.cudnn == "9.14.0");
  CHECK(record.machine.nccl == "2.28.3");
  REQUIRE(record.ranks.size() == 1);
  CHECK(record.ranks[0].warmup.size() == 10);
  REQUIRE(record.ranks[0].step.size() == 100);
  CHECK(record.ranks[0].step[0] == approx(0.001));
  CHECK(record.ranks[0].step[1] == approx(0.003));
  CHECK(record.ranks[0].step_host.size() == 100);
  CHECK(record.ranks[0].first_loss == 150);
  CHECK(record.ranks[0].last_loss == 40);  // of the last step that counts
}

TEST_CASE("ranks are gathered and nodes told apart by their hosts" * doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  const Finished done =
      run_python(folder,
                 "torch.distributed.initialized = True\n"
                 "recorder = Recorder(DistributedDataParallel(), batch_per_worker=8, out=OUT,\n"
                 "  precision='bf16', network='ethernet 10 Gbit/s tcp', steps=12, warmup=2)\n"
                 "for i in range(15): recorder.step()\n");
  REQUIRE_MESSAGE(done.status == 0, done.err);
  const RunRecord record = record_in(folder);
  CHECK(record.precision == Precision::bf16);
  CHECK(record.strategy == "ddp");
  CHECK(record.workers == 2);
  CHECK(record.nodes == 2);
  CHECK(record.line_rate == approx(1.25e9));
  REQUIRE(record.ranks.size() == 2);
  CHECK(record.ranks[1].node == 1);
  CHECK(record.ranks[1].step.size() == 12);
  CHECK(record.ranks[1].step[0] == approx(2 * record.ranks[0].step[0]));
}

TEST_CASE("a job that ends early leaves what it has" * doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  const Finished done = run_python(folder,
                                   "recorder = Recorder(Net(), batch_per_worker=64, out=OUT)\n"
                                   "for i in range(31): recorder.step()\n");
  REQUIRE_MESSAGE(done.status == 0, done.err);
  const RunRecord record = record_in(folder);
  CHECK_FALSE(record.complete);
  CHECK(record.ranks[0].step.size() == 20);
  CHECK(folder.files() == std::vector<std::string>{"job.py", "run.json.gz"});  // nothing unfinished

  const TemporaryFolder other;
  CHECK(run_python(other, "Recorder(Net(), batch_per_worker=64, out=OUT).step()\n").status == 0);
  CHECK(other.files() == std::vector<std::string>{"job.py"});  // no step counted, no record
}

TEST_CASE("a real PyTorch, two processes over gloo" * doctest::skip(!has_torch())) {
  const TemporaryFolder folder;
  const std::string job = "python3 '" + source + "/tests/tools/torch_job.py' '" + source + "/tools' '" +
                          folder.path("run.json.gz") + "'";
  test::RunOptions options;
  options.environment = {"WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29653",
                         "PYTHONDONTWRITEBYTECODE=1"};
  const Finished done = test::run_command(
      {"sh", "-c", "RANK=1 LOCAL_RANK=1 " + job + " & RANK=0 LOCAL_RANK=0 " + job + " && wait"}, options);
  REQUIRE_MESSAGE(done.status == 0, done.err);
  const RunRecord record = record_in(folder);
  CHECK(record.complete);
  CHECK(record.model == "small-cnn");
  CHECK(record.strategy == "ddp");
  CHECK(record.versions.at("collectives") == "gloo");
  CHECK(record.parameters.size() == 5);
  REQUIRE(record.ranks.size() == 2);
  for (const RankRecord& rank : record.ranks) {
    CHECK(rank.step_host.size() == 20);
    CHECK(rank.warmup.size() == 3);
    CHECK(rank.first_loss > 0);
  }
}
