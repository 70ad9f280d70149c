#include "execute/data_source.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <fstream>
#include <mutex>
#include <numeric>

#include "execute/text_data.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace foretrain {
namespace {

// Uniform with the standard deviation 1: cheaper than normal, and as good here.
float noise(RandomStream& random) {
  return static_cast<float>((random.uniform() - 0.5) * std::sqrt(12.0));
}

class LearnableData : public DataSource {
 public:
  LearnableData(const Model& model, std::uint64_t seed)
      : classes_(std::max<std::int64_t>(1, model.classes)),
        elements_(element_count(model.input)),
        seed_(seed) {
    RandomStream random(seed, {0});
    patterns_.resize(static_cast<std::size_t>(classes_ * elements_));
    for (float& value : patterns_) value = noise(random);
  }
  std::string name() const override { return "learnable"; }

  void fill(const BatchPlace& place, Batch& batch) const override {
    batch.samples.resize(static_cast<std::size_t>(place.size * elements_));
    batch.labels.resize(static_cast<std::size_t>(place.size));
    RandomStream random(
        seed_, {1, static_cast<std::uint64_t>(place.update), static_cast<std::uint64_t>(place.index)});
    float* sample = batch.samples.data();
    for (std::int32_t& label : batch.labels) {
      label = static_cast<std::int32_t>(random.next() % static_cast<std::uint64_t>(classes_));
      const float* pattern = patterns_.data() + label * elements_;
      for (std::int64_t e = 0; e < elements_; ++e) *sample++ = 0.7f * pattern[e] + 0.7f * noise(random);
    }
  }

 private:
  std::int64_t classes_, elements_;
  std::uint64_t seed_;
  std::vector<float> patterns_;
};

constexpr std::int64_t cifar_pixels = 32 * 32, cifar_bytes = 3 * cifar_pixels, cifar_files = 5,
                       cifar_per_file = 10000;

class Cifar10 : public DataSource {
 public:
  Cifar10(const std::filesystem::path& folder, const Model& model, std::uint64_t seed) : seed_(seed) {
    if (model.input != Shape{3, 32, 32} || model.classes != 10) {
      throw Error(ErrorKind::input,
                  fmt::format("CIFAR-10 has images of 3x32x32 in 10 classes; model '{}' takes "
                              "{} in {}",
                              model.name, text_of(model.input), model.classes));
    }
    for (int file = 1; file <= cifar_files; ++file) read(folder / fmt::format("data_batch_{}.bin", file));
    scale();
  }
  std::string name() const override { return "cifar10"; }

  void fill(const BatchPlace& place, Batch& batch) const override {
    const auto count = static_cast<std::int64_t>(labels_.size());
    batch.samples.resize(static_cast<std::size_t>(place.size * cifar_bytes));
    batch.labels.resize(static_cast<std::size_t>(place.size));
    const std::int64_t before = place.before >= 0 ? place.before : place.update * place.count * place.size;
    for (std::int64_t i = 0; i < place.size; ++i) {
      // Batches run on across epochs.
      const std::int64_t position = before + place.index * place.size + i;
      const std::int64_t sample = shuffled(position / count, position % count);
      batch.labels[static_cast<std::size_t>(i)] = labels_[static_cast<std::size_t>(sample)];
      const unsigned char* from = pixels_.data() + sample * cifar_bytes;
      float* to = batch.samples.data() + i * cifar_bytes;
      for (std::size_t c = 0; c < 3; ++c) {
        for (std::int64_t p = 0; p < cifar_pixels; ++p)
          *to++ = (static_cast<float>(*from++) - mean_[c]) * inverse_[c];
      }
    }
  }

 private:
  void read(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw Error(ErrorKind::input, "cannot read " + path.string());
    std::vector<unsigned char> bytes(static_cast<std::size_t>(cifar_per_file * (cifar_bytes + 1)));
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (in.gcount() != static_cast<std::streamsize>(bytes.size()) || in.peek() != EOF) {
      throw Error(ErrorKind::input, path.string() + " is no file of CIFAR-10's binary version");
    }
    for (std::int64_t i = 0; i < cifar_per_file; ++i) {
      const auto record = bytes.begin() + i * (cifar_bytes + 1);
      if (*record > 9) throw Error(ErrorKind::input, path.string() + " holds a class above 9");
      labels_.push_back(*record);
      pixels_.insert(pixels_.end(), record + 1, record + 1 + cifar_bytes);
    }
  }

  void scale() {
    for (std::size_t c = 0; c < 3; ++c) {
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < labels_.size(); ++i) {
        const unsigned char* from = pixels_.data() + i * cifar_bytes + c * cifar_pixels;
        for (std::int64_t p = 0; p < cifar_pixels; ++p) {
          sum += from[p];
          squares += double{1} * from[p] * from[p];
        }
      }
      const double count = static_cast<double>(labels_.size()) * cifar_pixels, mean = sum / count;
      const double deviation = std::sqrt(std::max(1e-6, squares / count - mean * mean));
      mean_[c] = static_cast<float>(mean);
      inverse_[c] = static_cast<float>(1 / deviation);
    }
  }

  // Fisher and Yates; one epoch's order is kept.
  std::int64_t shuffled(std::int64_t epoch, std::int64_t index) const {
    const std::scoped_lock lock(mutex_);
    if (epoch != epoch_) {
      order_.resize(labels_.size());
      std::iota(order_.begin(), order_.end(), std::int64_t{0});
      RandomStream random(seed_, {2, static_cast<std::uint64_t>(epoch)});
      for (std::size_t i = order_.size() - 1; i > 0; --i)
        std::swap(order_[i], order_[random.next() % (i + 1)]);
      epoch_ = epoch;
    }
    return order_[static_cast<std::size_t>(index)];
  }

  std::uint64_t seed_;
  std::vector<unsigned char> pixels_;
  std::vector<unsigned char> labels_;
  std::array<float, 3> mean_{}, inverse_{};
  mutable std::mutex mutex_;
  mutable std::int64_t epoch_ = -1;
  mutable std::vector<std::int64_t> order_;
};

}  // namespace

std::unique_ptr<DataSource> make_learnable_data(const Model& model, std::uint64_t seed) {
  if (model.tokens > 0) return make_learnable_tokens(model, seed);
  return std::make_unique<LearnableData>(model, seed);
}

std::unique_ptr<DataSource> open_cifar10(const std::filesystem::path& folder, const Model& model,
                                         std::uint64_t seed) {
  return std::make_unique<Cifar10>(folder, model, seed);
}

std::unique_ptr<DataSource> make_data_source(const std::string& text, const Model& model,
                                             std::uint64_t seed) {
  constexpr std::string_view cifar = "cifar10:", bytes = "text:", words = "words:";
  if (text.empty() || text == "synthetic") return nullptr;
  if (text == "learnable") return make_learnable_data(model, seed);
  if (text.starts_with(cifar)) return open_cifar10(text.substr(cifar.size()), model, seed);
  if (text.starts_with(bytes)) return open_text(text.substr(bytes.size()), TextUnit::bytes, model, seed);
  if (text.starts_with(words)) return open_text(text.substr(words.size()), TextUnit::words, model, seed);
  throw Error(
      ErrorKind::input,
      fmt::format("there is no data '{}': synthetic, learnable, cifar10:FOLDER, text:PATH or words:PATH",
                  text));
}

}  // namespace foretrain
