#include "calibrate/request_reader.hpp"

#include <algorithm>
#include <charconv>

#include "sim/base/error.hpp"
#include "sim/base/spelling.hpp"

namespace foretrain::calibrate {
namespace {

constexpr Precision precisions_known[] = {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16};
constexpr std::int64_t largest_batch = 1'000'000;

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while (at <= list.size()) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    std::string word = list.substr(at, end - at);
    word.erase(0, word.find_first_not_of(' '));
    word.erase(word.find_last_not_of(' ') + 1);
    words.push_back(std::move(word));
    at = end + 1;
  }
  return words;
}

}  // namespace

void read_request(const std::string& batches, const std::string& precisions, bool collectives_alone,
                  Request& request) {
  std::vector<Diagnostic> findings;
  const auto report = [&](std::string what) { findings.push_back({{}, "calibrate: " + std::move(what)}); };
  if (collectives_alone) {
    if (!batches.empty()) report("--batch is of no use without --model");
  } else if (batches.empty()) {
    report("--model needs --batch, as in --batch 32,64,128");
  } else {
    for (const std::string& word : words_of(batches)) {
      std::int64_t batch = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), batch);
      if (error != std::errc() || end != word.data() + word.size() || batch < 1 || batch > largest_batch)
        report("--batch: '" + word + "' is no number of samples from 1 to 1000000");
      else if (std::find(request.batches.begin(), request.batches.end(), batch) != request.batches.end())
        report("--batch: " + word + " is given twice");
      else
        request.batches.push_back(batch);
    }
  }
  for (const std::string& word : words_of(precisions)) {
    std::vector<std::string> names;
    const Precision* found = nullptr;
    for (const Precision& precision : precisions_known) {
      names.emplace_back(foretrain::name_of(precision));
      if (word == names.back()) found = &precision;
    }
    if (!found)
      report("--precision: unknown '" + word + "'" + did_you_mean(word, names) +
             "; allowed are fp32, tf32, bf16 and fp16");
    else if (std::find(request.precisions.begin(), request.precisions.end(), *found) !=
             request.precisions.end())
      report("--precision: " + word + " is given twice");
    else
      request.precisions.push_back(*found);
  }
  if (!findings.empty()) throw Error(std::move(findings));
}

}  // namespace foretrain::calibrate
