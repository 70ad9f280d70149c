// Where the samples of a step come from. What a source gives depends on the update, the rank and the
// micro-batch alone, so that a resumed run sees what an unbroken one would have seen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sim/training/model.hpp"

namespace foretrain {

struct Batch {
  std::vector<float> samples;        // batch x channels x height x width; none of a model of tokens
  std::vector<std::int32_t> tokens;  // batch x streams x sequence
  std::vector<std::int32_t> labels;  // class indices, of each sample or token
};

// Which samples: `size` of them, the `index`-th of `count` parts of an update.
struct BatchPlace {
  std::int64_t update = 0;
  std::int64_t size = 0;
  int index = 0, count = 1;
  // Samples of the job before the update; -1: as many as updates of this size have.
  std::int64_t before = -1;
};

class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual std::string name() const = 0;
  // Safe from several threads.
  virtual void fill(const BatchPlace& place, Batch& batch) const = 0;
};

// Every class has a pattern of its own, drawn once; a sample is its class's pattern and noise beside it. Of a
// model of tokens: random ones, and as the target of each another, always the same.
std::unique_ptr<DataSource> make_learnable_data(const Model& model, std::uint64_t seed);

// The binary version of CIFAR-10 (Krizhevsky 2009): data_batch_1.bin to data_batch_5.bin in `folder`, each
// sample a byte of its class and 3 x 32 x 32 bytes. Shuffled anew each epoch; scaled to mean 0 and deviation
// 1 a channel. Throws Error (input) where the files are not there or not whole, or the model is of another
// shape.
std::unique_ptr<DataSource> open_cifar10(const std::filesystem::path& folder, const Model& model,
                                         std::uint64_t seed);

// "learnable", "cifar10:FOLDER", "text:PATH", "words:PATH" (execute/text_data.hpp); null for "synthetic": one
// random batch, made on the device and used again.
std::unique_ptr<DataSource> make_data_source(const std::string& text, const Model& model, std::uint64_t seed);

}  // namespace foretrain
