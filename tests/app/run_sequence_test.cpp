#include <doctest/doctest.h>

#include "tests/app/subprocess.hpp"

using foretrain::test::Finished;
using foretrain::test::run_foretrain;
using foretrain::test::TemporaryFolder;

// Two workers of the reference backend train a model of tokens on text, from the file to the record.
TEST_CASE("a model of tokens is trained on text") {
  const TemporaryFolder folder;
  folder.write(
      "small.yaml",
      "unit: tokens\ninput: { tokens: 64 }\nsequence: 12\n"
      "optimizer: { kind: adamw, learning_rate: 1e-2, clip_norm: 1 }\nlayers:\n"
      "  - embedding: { name: table, out: 8 }\n  - dropout: { probability: 0.1 }\n"
      "  - gru: { hidden: 8 }\n  - linear: { tied: table, bias: false }\n  - softmax_cross_entropy\n");
  folder.write("s.yaml",
               "model: small.yaml\nprofile: { steps: [[4, 10 ms], [8, 20 ms]] }\nbatch: { per_worker: 4 }\n"
               "sequence: 8\ncluster: { topology: one-node, workers: 2 }\n");
  const Finished done = run_foretrain(
      {"run", folder.path("s.yaml"), "--device", "reference", "--steps", "3", "--warmup", "1", "--data",
       "words:" + std::string(FORETRAIN_SOURCE_DIR) + "/docs/jobs.md", "--out", folder.path("run.json")});
  CAPTURE(done.err);
  CHECK(done.status == 0);
  const std::string record = foretrain::test::read_file(folder.path("run.json"));
  CHECK(record.find("\"checksum") != std::string::npos);
}

// Rows of unequal lengths, captured, from calibration and prediction to validation.
TEST_CASE("samples of unequal lengths are calibrated, predicted, trained and validated") {
  const TemporaryFolder folder;
  folder.write("small.yaml",
               "unit: tokens\ninput: { tokens: 64 }\nsequence: 12\nlayers:\n"
               "  - embedding: { name: table, out: 8 }\n  - gru: { hidden: 8 }\n"
               "  - linear: { out: tokens }\n  - softmax_cross_entropy\n");
  for (const char* length : {"4", "12"}) {
    const Finished done = run_foretrain(
        {"calibrate", "--device", "reference", "--model", folder.path("small.yaml"), "--batch", "2,4",
         "--sequence", length, "--gpus", "1", "--seconds", "1", "--append", "--out", folder.path("p.json")});
    CAPTURE(done.err);
    REQUIRE(done.status == 0);
  }
  CHECK(foretrain::test::read_file(folder.path("p.json")).find("captured_step") != std::string::npos);
  folder.write("s.yaml",
               "model: small.yaml\nprofile: p.json\nbatch: { per_worker: 4 }\n"
               "sequence: { lengths: { 3: 4, 5: 3, 10: 2 }, batching: bucketed, buckets: 3, multiple: 4 }\n"
               "cluster: { topology: one-node, workers: 1 }\nexecution: { cuda_graph: true }\n");
  const Finished done = run_foretrain({"run", folder.path("s.yaml"), "--device", "reference", "--steps", "6",
                                       "--warmup", "1", "--out", folder.path("run.json")});
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  CHECK(done.out.find("% padding") != std::string::npos);
  const std::string record = foretrain::test::read_file(folder.path("run.json"));
  CHECK(record.find("\"useful_units_per_s\"") != std::string::npos);
  CHECK(record.find("\"prediction\"") != std::string::npos);
  const Finished validated = run_foretrain({"validate", folder.path("run.json")});
  CAPTURE(validated.err);
  CHECK(validated.status == 0);
}
