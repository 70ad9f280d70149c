// Samples of unequal lengths: how long, and how they come together in batches.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"
#include "sim/training/model.hpp"

namespace foretrain {

// pad_global: every row as long as the longest of the data. pad_batch: as the longest of its batch. bucketed:
// a batch is of samples alike in length, each worker's of a bucket of its own. packed: samples one behind the
// other in rows of the longest length.
enum class LengthBatching { pad_global, pad_batch, bucketed, packed };
const char* name_of(LengthBatching batching);

struct LengthCount {
  std::int64_t length = 0;
  double weight = 0;  // samples of it, or their share
};

struct SequenceLengths {
  std::vector<LengthCount> histogram;  // by length, each once
  LengthBatching batching = LengthBatching::pad_batch;
  int buckets = 10;           // bucketed: of equally many samples each
  std::int64_t multiple = 1;  // rows are padded up to one of it
  // The scenario's model at another length; null where it cannot be built.
  std::function<std::shared_ptr<const Model>(std::int64_t)> model_at;
  std::int64_t padded(std::int64_t length) const { return (length + multiple - 1) / multiple * multiple; }
  std::int64_t longest() const { return histogram.empty() ? 0 : padded(histogram.back().length); }
  double mean() const;
};

// The value of `sequence:` where it is a map. Findings go to `diagnostics`; null where there are any. A file
// of lengths has a line for each length, with the number of samples after a comma or blanks, or one length a
// line for each sample; lines that begin with a letter or '#' are headings.
std::shared_ptr<SequenceLengths> read_sequence_lengths(const Value& map, Diagnostics& diagnostics);

}  // namespace foretrain
