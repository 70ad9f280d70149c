#include "execute/text_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <unordered_map>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace foretrain {
namespace {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return {path};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path, failed))
    if (entry.is_regular_file(failed)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string text_of_files(const std::filesystem::path& path) {
  std::string text;
  for (const auto& file : files_of(path)) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw Error(ErrorKind::input, "cannot read " + file.string());
    text.append(std::istreambuf_iterator<char>(in), {});
    if (in.bad()) throw Error(ErrorKind::input, "cannot read " + file.string());
  }
  return text;
}

std::vector<std::string_view> parts_of(std::string_view text, TextUnit unit) {
  std::vector<std::string_view> parts;
  const auto is_letter = [&](std::size_t i) {
    const auto c = static_cast<unsigned char>(text[i]);
    return std::isalnum(c) || c >= 0x80;  // of UTF-8
  };
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (unit == TextUnit::words) {
      if (std::isspace(static_cast<unsigned char>(text[i]))) {
        ++i;
        continue;
      }
      while (is_letter(i) && end < text.size() && is_letter(end)) ++end;
    }
    parts.push_back(text.substr(i, end - i));
    i = end;
  }
  return parts;
}

std::vector<std::int32_t> numbered(const std::vector<std::string_view>& parts, std::int64_t most) {
  std::map<std::string_view, std::int64_t> counts;
  for (const std::string_view part : parts) ++counts[part];
  std::vector<std::pair<std::int64_t, std::string_view>> by_count;
  for (const auto& [part, count] : counts) by_count.emplace_back(-count, part);
  std::sort(by_count.begin(), by_count.end());
  std::unordered_map<std::string_view, std::int32_t> numbers;
  for (std::size_t i = 0; i < by_count.size(); ++i)
    numbers[by_count[i].second] =
        static_cast<std::int32_t>(std::min<std::int64_t>(static_cast<std::int64_t>(i), most - 1));
  std::vector<std::int32_t> tokens;
  tokens.reserve(parts.size());
  for (const std::string_view part : parts) tokens.push_back(numbers.at(part));
  return tokens;
}

std::int64_t streams_of(const Model& model) {
  return element_count(model.input) / model.sequence;
}

RandomStream stream_of(std::uint64_t seed, const BatchPlace& place) {
  return RandomStream(seed,
                      {3, static_cast<std::uint64_t>(place.update), static_cast<std::uint64_t>(place.index)});
}

class Text : public DataSource {
 public:
  Text(const std::filesystem::path& path, TextUnit unit, const Model& model, std::uint64_t seed)
      : length_(model.sequence), streams_(streams_of(model)), seed_(seed) {
    const std::string text = text_of_files(path);
    tokens_ = numbered(parts_of(text, unit), std::min(model.tokens, model.classes));
    if (static_cast<std::int64_t>(tokens_.size()) <= length_)
      throw Error(ErrorKind::input, fmt::format("{} holds {} tokens, too few for sequences of {}",
                                                path.string(), tokens_.size(), length_));
  }
  std::string name() const override { return "text"; }

  void fill(const BatchPlace& place, Batch& batch) const override {
    batch.samples.clear();
    batch.tokens.clear();
    batch.labels.clear();
    RandomStream random = stream_of(seed_, place);
    const std::uint64_t starts = tokens_.size() - static_cast<std::size_t>(length_);
    for (std::int64_t n = 0; n < place.size; ++n) {
      const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(random.next() % starts);
      batch.tokens.insert(batch.tokens.end(), first, first + length_);
      if (streams_ == 1) {
        batch.labels.insert(batch.labels.end(), first + 1, first + length_ + 1);
        continue;
      }
      for (std::int64_t stream = 1; stream < streams_; ++stream) {
        batch.tokens.push_back(0);
        batch.tokens.insert(batch.tokens.end(), first, first + length_ - 1);
      }
      batch.labels.insert(batch.labels.end(), first, first + length_);
    }
  }

 private:
  std::int64_t length_, streams_;
  std::uint64_t seed_;
  std::vector<std::int32_t> tokens_;
};

class LearnableTokens : public DataSource {
 public:
  LearnableTokens(const Model& model, std::uint64_t seed)
      : tokens_(model.tokens), length_(model.sequence), streams_(streams_of(model)), seed_(seed) {
    target_of_.resize(static_cast<std::size_t>(tokens_));
    RandomStream random(seed, {4});
    for (std::int32_t& target : target_of_)
      target = static_cast<std::int32_t>(random.next() % static_cast<std::uint64_t>(model.classes));
  }
  std::string name() const override { return "learnable"; }

  void fill(const BatchPlace& place, Batch& batch) const override {
    batch.samples.clear();
    batch.labels.clear();
    batch.tokens.resize(static_cast<std::size_t>(place.size * streams_ * length_));
    RandomStream random = stream_of(seed_, place);
    for (std::int32_t& token : batch.tokens)
      token = static_cast<std::int32_t>(random.next() % static_cast<std::uint64_t>(tokens_));
    for (std::int64_t n = 0; n < place.size; ++n) {
      const auto last = batch.tokens.begin() + ((n + 1) * streams_ - 1) * length_;
      for (std::int64_t t = 0; t < length_; ++t)
        batch.labels.push_back(target_of_[static_cast<std::size_t>(last[t])]);
    }
  }

 private:
  std::int64_t tokens_, length_, streams_;
  std::uint64_t seed_;
  std::vector<std::int32_t> target_of_;
};

}  // namespace

std::unique_ptr<DataSource> open_text(const std::filesystem::path& path, TextUnit unit, const Model& model,
                                      std::uint64_t seed) {
  if (model.tokens == 0)
    throw Error(ErrorKind::input, fmt::format("model '{}' reads images, not text", model.name));
  return std::make_unique<Text>(path, unit, model, seed);
}

std::unique_ptr<DataSource> make_learnable_tokens(const Model& model, std::uint64_t seed) {
  return std::make_unique<LearnableTokens>(model, seed);
}

}  // namespace foretrain
