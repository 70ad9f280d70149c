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
