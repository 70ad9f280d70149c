// Times of a layer's passes as functions of the batch and, of models that have one, of the length of a
// sequence, from what a profile holds.
//
// Between measured lengths: what works row by row (products, norms, tables, the loss) depends on batch x
// sequence alone, so that all its measurements lie on one curve; a recurrence's time is a line in the length;
// attention's is the length times a line in it, since it has work for each token and for each pair.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

struct PassCurve {
  std::map<std::int64_t, double> device, host, launches;  // by batch, or by batch x sequence
  double relative_error = 0;                              // of the measured medians
};
void add_timing(PassCurve& curve, std::int64_t at, const PassTiming& timing);

struct PassEstimate {
  double device = 0, host = 0;
  int launches = 0;
  double uncertainty = 0;     // relative, of the interpolation
  double relative_error = 0;  // of the measurements
  bool extrapolated = false;
  Origin origin = Origin::measured;
};
PassEstimate estimate(const PassCurve& curve, std::int64_t at);

class OperatorCurves {
 public:
  OperatorCurves(const Model& model, const Profile& profile, Precision precision);

  // Nothing where the profile has no such pass.
  std::optional<PassEstimate> find(const Layer& layer, Pass pass, std::int64_t batch) const;
  // Whether the model itself was timed in this precision; then no other model's operators serve.
  bool context_known() const { return context_known_; }
  const std::set<std::int64_t>& batches() const { return batches_; }      // of the model itself
  const std::set<std::int64_t>& sequences() const { return sequences_; }  // of it, where it has them

 private:
  using Passes = std::array<PassCurve, pass_count>;  // empty where a pass was not timed
  using ByKey = std::unordered_map<std::string, Passes>;
  const PassCurve* curve_of(const ByKey& curves, const std::string& key, Pass pass) const;
  std::optional<PassEstimate> between_lengths(const Layer& layer, Pass pass, std::int64_t batch) const;

  const Model& model_;
  bool context_known_ = false;
  std::set<std::int64_t> batches_, sequences_;
  ByKey in_context_, by_operator_;  // by layer and key, by key
  // Of the model at other lengths: by layer, all of them over batch x sequence, and each by batch.
  ByKey by_rows_;
  std::map<std::int64_t, ByKey> by_length_;
};

}  // namespace foretrain
