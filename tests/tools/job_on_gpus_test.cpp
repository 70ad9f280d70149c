// tools/job_on_gpus.sh, on the reference backend.
#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/app/subprocess.hpp"

using namespace foretrain;

TEST_CASE("a job is run twice with the costs of a tenth of it, and held against its prediction") {
  const test::TemporaryFolder folder;
  folder.write("tiny.yaml", R"(title: a tiny perceptron
unit: images
input: { channels: 1, height: 4, width: 4 }
classes: 3
optimizer: { kind: sgd, learning_rate: 0.1, momentum: 0.9 }
layers:
  - flatten
  - linear: { name: fc, out: 3 }
  - softmax_cross_entropy: { name: loss }
)");
  const std::string scenario = folder.write("job.yaml", R"(# Twice as many?
model: tiny.yaml
profile: { steps: [[4, 1 ms], [8, 2 ms]] }
cluster: { topology: one-node, workers: 2 }
dataset: { samples: 160 }
job:
  epochs: 2
  schedule:
    - { from: 0 epoch, batch: 8, workers: 1 }
    - { from: 1 epoch, batch: 16, workers: 2 }
  evaluate: { every: 1 epoch, samples: 16 }
  checkpoint: { every: 1 epoch, write: 1 GB/s }
)");
  const test::Finished done =
      test::run_command({"env", "PROFILE=scenario", "SOAK=0.01", "TENTH=16", "bash",
                         std::string(FORETRAIN_SOURCE_DIR) + "/tools/job_on_gpus.sh",
                         std::filesystem::read_symlink("/proc/self/exe").parent_path() / "foretrain",
                         folder.path("out"), scenario, "reference"});
  INFO(done.out, done.err);
  REQUIRE(done.status == 0);
  for (const char* text :
       {"phase 1: batch 8 on 1", "phase 2: batch 16 on 2", "evaluation", "checkpoint", "total"})
    CHECK(done.out.find(text) != std::string::npos);
  CHECK(std::filesystem::exists(folder.path("out/job.2.json.gz")));
  CHECK_FALSE(std::filesystem::exists(folder.path("out/checkpoint")));
}
