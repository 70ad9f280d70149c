// Samples of unequal lengths for a run: whole rows of another source, cut to what the simulator's own draws
// give each worker in each step.
#pragma once

#include <cstdint>

#include "execute/data_source.hpp"
#include "sim/input/scenario.hpp"
#include "sim/training/unequal_lengths.hpp"

namespace foretrain {

// Rows beyond their samples are padding: token 0, and no label. Packed samples stand one behind the other in
// one row, and nothing keeps them apart.
class UnequalData : public DataSource {
 public:
  // `rows` gives rows of the model's own sequence, the longest that comes; both outlive this. Throws Error
  // (input) where the draws ask for more different rows than there can be programs.
  UnequalData(const DataSource& rows, const Scenario& scenario, std::uint64_t seed);

  std::string name() const override { return rows_.name(); }
  // A rank has `accumulation` parts of an update's, one behind the other, all of one length.
  void fill(const BatchPlace& place, Batch& batch) const override;

  // Positions of the rank's rows in an update.
  std::int64_t row(std::int64_t update, int rank) const;
  // Units in the rank's first `rows` rows of an update that are no padding, of all streams.
  double useful(std::int64_t update, int rank, std::int64_t rows) const;
  double padded(std::int64_t update, int rank, std::int64_t rows) const;
  const LengthDraws& draws() const { return draws_; }

 private:
  const DataSource& rows_;
  int parts_;
  std::int64_t length_, streams_;
  LengthDraws draws_;
};

}  // namespace foretrain
