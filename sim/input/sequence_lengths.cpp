#include "sim/input/sequence_lengths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "sim/input/fields.hpp"
#include "sim/input/scalars.hpp"
#include "sim/input/scenario_schema.hpp"

namespace foretrain {
namespace {

constexpr std::int64_t longest_allowed = 10'000'000;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

class LengthReader {
 public:
  explicit LengthReader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void add(const std::string& length, const std::string& weight, const SourceLocation& where) {
    const auto l = parse_integer(length);
    const auto w = parse_plain_number(weight);
    const auto* const value = std::get_if<std::int64_t>(&l);
    const auto* const counted = std::get_if<double>(&w);
    if (value == nullptr || *value < 1 || *value > longest_allowed) {
      diagnostics_.error(
          where, fmt::format("lengths: '{}' is no length of a sequence, 1 to {}", length, longest_allowed));
    } else if (counted == nullptr || *counted < 0) {
      diagnostics_.error(where, fmt::format("lengths: '{}' is no number of samples", weight));
    } else if (*counted > 0) {
      weights_[*value] += *counted;
    }
  }

  void file(const Value& value) {
    const std::filesystem::path path = path_beside(value.where().file, value.text);
    std::string text;
    try {
      text = read_file_limited(path);
    } catch (const Error& error) {
      diagnostics_.error(value.where(), error.what());
      return;
    }
    const std::size_t before = diagnostics_.error_count();
    constexpr std::size_t few_errors = 20;
    if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
    int number = 0;
    for (std::size_t at = 0; at < text.size() && diagnostics_.error_count() <= before + few_errors;) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      line(std::string_view(text).substr(at, end - at), {path.string(), ++number, 1});
      at = end + 1;
    }
  }

  std::vector<LengthCount> histogram(const SourceLocation& where) {
    if (weights_.empty()) diagnostics_.error(where, "lengths: there is no length with samples");
    std::vector<LengthCount> all;
    for (const auto& [length, weight] : weights_) all.push_back({length, weight});
    return all;
  }

 private:
  void line(std::string_view text, const SourceLocation& where) {
    std::vector<std::string> words;
    constexpr const char* separators = ",; \t\r";
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = text.find_first_not_of(separators, at);
      if (begin == std::string_view::npos) break;
      const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
      words.emplace_back(text.substr(begin, end - begin));
      at = end;
    }
    if (words.empty() || words[0][0] == '#') return;
    const bool is_head = !has_rows_ && std::isalpha(static_cast<unsigned char>(words[0][0]));
    has_rows_ = true;
    if (is_head) return;
    if (words.size() > 2) {
      diagnostics_.error(where, "lengths: a line is a length, or a length and a number of samples");
      return;
    }
    add(words[0], words.size() == 2 ? words[1] : "1", where);
  }

  Diagnostics& diagnostics_;
  std::map<std::int64_t, double> weights_;
  bool has_rows_ = false;
};

}  // namespace

const char* name_of(LengthBatching batching) {
  switch (batching) {
    case LengthBatching::pad_global:
      return "pad_global";
    case LengthBatching::pad_batch:
      return "pad_batch";
    case LengthBatching::bucketed:
      return "bucketed";
    case LengthBatching::packed:
      return "packed";
  }
  return "";
}

double SequenceLengths::mean() const {
  double sum = 0, weight = 0;
  for (const LengthCount& each : histogram) {
    sum += each.weight * static_cast<double>(each.length);
    weight += each.weight;
  }
  return weight > 0 ? sum / weight : 0;
}

std::shared_ptr<SequenceLengths> read_sequence_lengths(const Value& map, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.error_count();
  const Fields fields(&map, sequence_schema());
  auto made = std::make_shared<SequenceLengths>();
  LengthReader reader(diagnostics);
  if (const Value* lengths = fields.find("lengths")) {
    for (const Member& member : lengths->members) reader.add(member.key, member.value.text, member.where);
    if (lengths->is_scalar()) reader.file(*lengths);
    if (diagnostics.error_count() == before) made->histogram = reader.histogram(lengths->where());
  }
  made->batching = word_of(fields.text("batching"), {LengthBatching::pad_batch, LengthBatching::pad_global,
                                                     LengthBatching::bucketed, LengthBatching::packed});
  made->buckets =
      static_cast<int>(std::clamp<std::int64_t>(fields.integer("buckets").value_or(10), 1, 10000));
  made->multiple = fields.integer("multiple").value_or(1);
  if (fields.has("buckets") && made->batching != LengthBatching::bucketed)
    diagnostics.error(fields.where("buckets"), "buckets: belongs to batching 'bucketed'");
  return diagnostics.error_count() == before ? made : nullptr;
}

}  // namespace foretrain
