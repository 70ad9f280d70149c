#include "execute/unequal_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/input/sequence_lengths.hpp"

namespace foretrain {
namespace {

constexpr std::size_t most_rows = 64;  // different ones: each is a program of its own

std::int64_t filled(const std::vector<std::int64_t>& samples) {
  return std::accumulate(samples.begin(), samples.end(), std::int64_t{0});
}

}  // namespace

UnequalData::UnequalData(const DataSource& rows, const Scenario& scenario, std::uint64_t seed)
    : rows_(rows),
      parts_(scenario.strategy.accumulation),
      length_(scenario.model->sequence),
      streams_(element_count(scenario.model->input) / scenario.model->sequence),
      draws_(*scenario.lengths, scenario.batch_per_worker, seed) {
  const std::size_t different = draws_.possible_rows().size();
  if (different <= most_rows) return;
  throw Error(
      ErrorKind::input,
      fmt::format("run builds a program for each length of a row, and {} are too many: set "
                  "sequence.multiple, such as 16, so that rows are padded to {} different lengths at most",
                  different, most_rows));
}

std::int64_t UnequalData::row(std::int64_t update, int rank) const {
  return draws_.row(static_cast<std::uint64_t>(update), rank);
}

double UnequalData::useful(std::int64_t update, int rank, std::int64_t rows) const {
  const auto samples = draws_.samples(static_cast<std::uint64_t>(update), rank);
  std::int64_t sum = 0;
  for (std::size_t n = 0; n < std::min(samples.size(), static_cast<std::size_t>(rows)); ++n)
    sum += filled(samples[n]);
  return static_cast<double>(sum * streams_);
}

double UnequalData::padded(std::int64_t update, int rank, std::int64_t rows) const {
  return static_cast<double>(rows * row(update, rank) * streams_);
}

void UnequalData::fill(const BatchPlace& place, Batch& batch) const {
  const int rank = place.index / parts_, part = place.index % parts_;
  const std::int64_t length = row(place.update, rank);
  const auto samples = draws_.samples(static_cast<std::uint64_t>(place.update), rank);
  Batch whole;
  rows_.fill(place, whole);
  batch.samples.clear();
  batch.tokens.clear();
  batch.labels.clear();
  for (std::int64_t n = 0; n < place.size; ++n) {
    const auto own = static_cast<std::size_t>(part * place.size + n) % samples.size();
    const std::int64_t used = std::min(length, filled(samples[own])), rest = length - used;
    for (std::int64_t stream = 0; stream < streams_; ++stream) {
      const auto first = whole.tokens.begin() + (n * streams_ + stream) * length_;
      batch.tokens.insert(batch.tokens.end(), first, first + used);
      batch.tokens.insert(batch.tokens.end(), static_cast<std::size_t>(rest), 0);
    }
    const auto first = whole.labels.begin() + n * length_;
    batch.labels.insert(batch.labels.end(), first, first + used);
    batch.labels.insert(batch.labels.end(), static_cast<std::size_t>(rest), -1);
  }
}

}  // namespace foretrain
