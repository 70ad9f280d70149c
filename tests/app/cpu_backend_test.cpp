// `foretrain run` on the cpu backend as a user types it: by threads of one process, by several processes,
// with a peer that dies, killed and resumed. Skipped, and said so, where the backend was not built.
#include <doctest/doctest.h>

#include <csignal>
#include <functional>
#include <thread>

#include "execute/run_record_json.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/cpu_backend.hpp"
#include "tests/support/records.hpp"

using namespace foretrain;
using device::Backend;
using foretrain::test::approx;
using test::Finished;
using test::read_record;
using test::run_foretrain;
using test::TemporaryFolder;

namespace {

const char* const model = R"(title: a tiny convolutional network
unit: images
input: { channels: 3, height: 12, width: 12 }
classes: 5
optimizer: { kind: sgd, learning_rate: 0.05, momentum: 0.9 }
layers:
  - conv2d: { name: conv1, out: 16, kernel: 3, padding: 1, bias: false }
  - batch_norm: { name: bn1 }
  - relu
  - flatten
  - linear: { name: fc, out: classes }
  - softmax_cross_entropy: { name: loss }
)";

std::string scenario(const std::string& cluster) {
  return "model: tiny.yaml\nprofile: { steps: [[4, 1 ms], [8, 2 ms]] }\nbatch: { per_worker: 8 }\ncluster: " +
         cluster + "\nhost: { threads: 1 }\n";
}

const char* const two_nodes =
    "{ topology: ethernet-nodes, nodes: 2, gpus_per_node: 1, network: { bandwidth: 10 Gbit/s } }";

struct Folder : TemporaryFolder {
  Folder() { write("tiny.yaml", model); }
  Finished run(std::vector<std::string> arguments, const test::RunOptions& options = {}) const {
    arguments.insert(arguments.begin(), "run");
    arguments.insert(arguments.end(), {"--device", "cpu", "--steps", "20", "--data", "learnable"});
    return run_foretrain(arguments, options);
  }
};

// Two processes of one run; `first` holds rank 0.
struct Pair {
  Finished first, second;
};

// What a launcher sets of rank 0 or 1.
using Launcher = std::function<std::vector<std::string>(const std::string& rank)>;

Pair run_pair(const Folder& folder, const std::vector<std::string>& arguments, const Launcher& launcher,
              test::RunOptions second = {}) {
  Pair pair;
  second.environment = launcher("1");
  std::thread other([&] { pair.second = folder.run(arguments, second); });
  test::RunOptions first;
  first.environment = launcher("0");
  pair.first = folder.run(arguments, first);
  other.join();
  return pair;
}

// As a script starts them, each on a node of its own.
Launcher script(const Folder& folder) {
  return [&folder](const std::string& rank) {
    return std::vector<std::string>{"NODE_RANK=" + rank, "NNODES=2", "NCCL_HOSTID=node" + rank,
                                    "FORETRAIN_RENDEZVOUS=" + folder.path("meeting")};
  };
}

}  // namespace

TEST_CASE("run trains on the cpu backend, alone and by two processes that end with equal weights") {
  if (test::cpu_backend() == nullptr) return;
  const Folder folder;
  const std::string one = folder.write("one.yaml", scenario("{ topology: one-node, workers: 1 }"));
  const Finished alone = folder.run({one, "--out", folder.path("one.json")});
  CAPTURE(alone.err);
  REQUIRE(alone.status == 0);
  const RunRecord single = read_record(folder.path("one.json"));
  CHECK(single.complete);
  CHECK(single.ranks[0].last_loss < single.ranks[0].first_loss);
  CHECK(single.machine.gpu.find("1 thread") != std::string::npos);

  const std::string two = folder.write("two.yaml", scenario(two_nodes));
  const Pair pair = run_pair(folder, {two, "--out", folder.path("two.json")}, script(folder));
  CAPTURE(pair.first.err);
  CAPTURE(pair.second.err);
  REQUIRE(pair.first.status == 0);
  CHECK(pair.second.status == 0);
  const RunRecord record = read_record(folder.path("two.json"));
  REQUIRE(record.ranks.size() == 2);
  CHECK(record.ranks[0].step.size() == 20);
  CHECK(record.ranks[0].checksum == record.ranks[1].checksum);
  CHECK(record.ranks[1].node == 1);
  // Nobody leaves anything behind: the meeting's file, Gloo's folder.
  CHECK(folder.files() ==
        std::vector<std::string>{"one.json", "one.yaml", "tiny.yaml", "two.json", "two.yaml"});
}

TEST_CASE("processes of mpirun, srun and torchrun find each other on the cpu backend") {
  Backend* cpu = test::cpu_backend();
  if (cpu == nullptr || cpu->device_count() < 2) return;
  const Folder folder;
  const std::string two = folder.write("two.yaml", scenario("{ topology: one-node, workers: 2 }"));
  const std::pair<const char*, Launcher> launchers[] = {
      {"mpirun",
       [](const std::string& rank) {
         return std::vector<std::string>{"OMPI_COMM_WORLD_RANK=" + rank, "OMPI_COMM_WORLD_SIZE=2",
                                         "OMPI_COMM_WORLD_LOCAL_RANK=" + rank};
       }},
      {"srun",
       [](const std::string& rank) {
         return std::vector<std::string>{"SLURM_STEP_ID=0", "SLURM_PROCID=" + rank, "SLURM_NTASKS=2",
                                         "SLURM_LOCALID=" + rank};
       }},
      {"torchrun", [](const std::string& rank) {
         return std::vector<std::string>{"RANK=" + rank, "WORLD_SIZE=2", "LOCAL_RANK=" + rank};
       }}};
  for (const auto& each : launchers) {
    const auto& name = each.first;
    const auto& launcher = each.second;
    CAPTURE(std::string(name));
    const std::string out = folder.path(std::string(name) + ".json");
    const Pair pair = run_pair(folder, {two, "--out", out}, [&](const std::string& rank) {
      std::vector<std::string> variables = launcher(rank);
      variables.push_back("FORETRAIN_RENDEZVOUS=" + folder.path("meeting"));
      return variables;
    });
    CAPTURE(pair.first.err);
    CAPTURE(pair.second.err);
    REQUIRE(pair.first.status == 0);
    CHECK(pair.second.status == 0);
    const RunRecord record = read_record(out);
    REQUIRE(record.ranks.size() == 2);
    CHECK(record.ranks[0].checksum == record.ranks[1].checksum);
  }
}

TEST_CASE("a scenario that wants a process a worker gets them, which train as threads of one process do") {
  Backend* cpu = test::cpu_backend();
  if (cpu == nullptr || cpu->device_count() < 2) return;
  const Folder folder;
  const auto by_processes = [](const std::string& cluster) {
    std::string text = scenario(cluster);
    return text.replace(text.find("threads: 1"), 10, "threads: 1, processes: per_gpu");
  };
  const char* const pair_of_workers = "{ topology: one-node, workers: 2 }";
  const std::string threads = folder.write("threads.yaml", scenario(pair_of_workers));
  const std::string processes = folder.write("processes.yaml", by_processes(pair_of_workers));
  const Finished one = folder.run({threads, "--out", folder.path("threads.json")});
  const Finished each = folder.run({processes, "--out", folder.path("processes.json"), "--monitor", "20"});
  CAPTURE(one.err);
  CAPTURE(each.err);
  REQUIRE(one.status == 0);
  REQUIRE(each.status == 0);
  const RunRecord a = read_record(folder.path("threads.json")),
                  b = read_record(folder.path("processes.json"));
  REQUIRE(b.ranks.size() == 2);
  CHECK(b.ranks[0].checksum == b.ranks[1].checksum);
  CHECK(b.ranks[0].last_loss == approx(a.ranks[0].last_loss).epsilon(1e-4));
  CHECK(folder.files() == std::vector<std::string>{"processes.json", "processes.yaml", "threads.json",
                                                   "threads.yaml", "tiny.yaml"});
  // Scenarios of different numbers of workers cannot share their processes.
  const std::string single = folder.write("single.yaml", by_processes("{ topology: one-node, workers: 1 }"));
  const Finished mixed = folder.run({processes, single, "--out", folder.path("runs")});
  CHECK(mixed.status == 2);
  CHECK(mixed.err.find("run them one by one") != std::string::npos);
  // On several nodes a script starts one process each, which the prediction does not know.
  const std::string many = folder.write(
      "many.yaml",
      by_processes(
          "{ topology: ethernet-nodes, nodes: 2, gpus_per_node: 1024, network: { bandwidth: 10 Gbit/s } }"));
  test::RunOptions launched;
  launched.environment = script(folder)("0");
  const Finished shared = folder.run({many, "--out", folder.path("many.json")}, launched);
  CAPTURE(shared.err);
  CHECK(shared.status == 4);
  CHECK(shared.err.find("the workers of a node run in one process here") != std::string::npos);
}

TEST_CASE("a peer on the cpu backend that is killed is an error of the others within seconds") {
  if (test::cpu_backend() == nullptr) return;
  const Folder folder;
  const std::string two = folder.write("two.yaml", scenario(two_nodes));
  test::RunOptions killed;
  killed.signal_after_ms = 2500;
  killed.signal = SIGKILL;
  const Pair pair =
      run_pair(folder, {two, "--out", folder.path("two.json"), "--soak", "600", "--time-limit", "20"},
               script(folder), killed);
  CAPTURE(pair.first.err);
  CHECK(pair.second.status == 128 + SIGKILL);
  CHECK(pair.first.status == 1);
  CHECK(pair.first.err.find("rank 1") != std::string::npos);
}

TEST_CASE("a job on the cpu backend that was killed, or stopped, goes on where it was, bit for bit") {
  if (test::cpu_backend() == nullptr) return;
  const Folder folder;
  const std::string job =
      folder.write("job.yaml", scenario("{ topology: one-node, workers: 1 }") +
                                   "dataset: { samples: 160 }\njob: { epochs: 60, checkpoint: "
                                   "{ every: 1 epoch, write: 1 GB/s } }\n");
  const auto run = [&](const std::string& out, const std::string& checkpoint, std::vector<std::string> more,
                       const test::RunOptions& options = {}) {
    std::vector<std::string> arguments{
        "run", job,      "--out",     folder.path(out), "--device",
        "cpu", "--data", "learnable", "--checkpoint",   folder.path(checkpoint)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_foretrain(arguments, options);
  };
  const auto finished = [&](const std::string& out, const std::string& checkpoint,
                            std::vector<std::string> more) {
    const Finished done = run(out, checkpoint, std::move(more));
    CAPTURE(done.err);
    REQUIRE(done.status == 0);
    return read_record(folder.path(out));
  };
  const RunRecord whole = finished("whole.json", "whole.ckpt", {});
  finished("part.json", "part.ckpt", {"--set", "job.epochs=2"});
  const RunRecord rest = finished("rest.json", "part.ckpt", {"--resume"});
  CHECK(rest.resumed_after == 40);
  CHECK(rest.ranks[0].checksum == whole.ranks[0].checksum);

  test::RunOptions killed;
  killed.signal = SIGKILL;
  killed.signal_after_ms = 20;
  killed.signal_once_there = folder.path("killed.ckpt");
  // An interrupted run of sixty epochs; where it was too quick to be caught there is nothing to resume.
  const Finished broken = run("killed.json", "killed.ckpt", {}, killed);
  if (broken.status == 0) return;
  CHECK(broken.status == 128 + SIGKILL);
  const RunRecord resumed = finished("resumed.json", "killed.ckpt", {"--resume"});
  CHECK(resumed.resumed_after >= 20);
  CHECK(resumed.resumed_after % 20 == 0);
  CHECK(resumed.ranks[0].checksum == whole.ranks[0].checksum);
}
