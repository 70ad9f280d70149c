#include "sim/training/unequal_lengths.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/training/batch_curve.hpp"
#include "sim/training/step_times.hpp"

namespace foretrain {
namespace {

class Distribution {
 public:
  explicit Distribution(const std::vector<LengthCount>& histogram) : histogram_(histogram) {
    for (const LengthCount& each : histogram) cumulated_.push_back(sum_ += each.weight);
  }

  // The length that a share `u` of samples does not pass.
  std::int64_t quantile(double u) const {
    const auto found = std::lower_bound(cumulated_.begin(), cumulated_.end(), u * sum_);
    const auto place = std::min<std::ptrdiff_t>(found - cumulated_.begin(), std::ssize(cumulated_) - 1);
    return histogram_[static_cast<std::size_t>(place)].length;
  }

 private:
  const std::vector<LengthCount>& histogram_;
  std::vector<double> cumulated_;
  double sum_ = 0;
};

// Of rows of `length`, that samples put one behind the other leave filled: each goes where it first fits.
double filled_by_packing(const Distribution& lengths, std::int64_t length, std::uint64_t seed) {
  constexpr int samples = 2000, most_open = 64;
  RandomStream random(seed, {17});
  std::vector<std::int64_t> left;
  double used = 0;
  std::int64_t rows = 0;
  for (int i = 0; i < samples; ++i) {
    const std::int64_t sample = lengths.quantile(random.uniform());
    used += static_cast<double>(sample);
    auto place = std::find_if(left.begin(), left.end(), [&](std::int64_t room) { return room >= sample; });
    if (place == left.end()) {
      if (left.size() == most_open) left.erase(left.begin());
      left.push_back(length);
      ++rows;
      place = std::prev(left.end());
    }
    *place -= sample;
  }
  return used / (static_cast<double>(rows) * static_cast<double>(length));
}

}  // namespace

std::int64_t LengthDraw::longest() const {
  return *std::max_element(rows.begin(), rows.end());
}

DrawnLengths draw_lengths(const SequenceLengths& lengths, std::int64_t batch, int workers, int draws,
                          std::uint64_t seed) {
  const Distribution distribution(lengths.histogram);
  const std::int64_t longest = lengths.longest();
  DrawnLengths out;
  out.useful = lengths.mean();
  double positions = 0;
  for (int draw = 0; draw < draws; ++draw) {
    LengthDraw made;
    RandomStream random(seed, {18, static_cast<std::uint64_t>(draw)});
    for (int worker = 0; worker < workers; ++worker) {
      // The largest of `batch` uniform numbers is the root of one.
      const double bucket = random.uniform(),
                   top = std::pow(random.uniform(), 1.0 / static_cast<double>(batch));
      std::int64_t row = longest;
      if (lengths.batching == LengthBatching::pad_batch) row = distribution.quantile(top);
      if (lengths.batching == LengthBatching::bucketed)
        row = distribution.quantile((std::floor(bucket * lengths.buckets) + top) / lengths.buckets);
      made.rows.push_back(row);
      positions += static_cast<double>(row);
    }
    out.draws.push_back(std::move(made));
  }
  out.padded = positions / (static_cast<double>(draws) * workers);
  if (lengths.batching == LengthBatching::packed) {
    const double filled = filled_by_packing(distribution, longest, seed);
    out.samples_a_row = filled * static_cast<double>(longest) / std::max(1.0, out.useful);
    out.useful = filled * static_cast<double>(longest);
  }
  return out;
}

UnequalSteps::UnequalSteps(const Scenario& scenario, std::int64_t batch, int workers, std::uint64_t seed)
    : scenario_(scenario),
      batch_(batch),
      workers_(workers),
      drawn_(draw_lengths(*scenario.lengths, batch, workers, draws, seed)) {
  if (!scenario.profile) {
    throw Error(ErrorKind::unavailable,
                "sequence: unequal lengths need a profile that timed the model's operators, not whole steps");
  }
  std::vector<std::int64_t> all;
  for (const LengthDraw& draw : drawn_.draws) all.insert(all.end(), draw.rows.begin(), draw.rows.end());
  std::sort(all.begin(), all.end());
  constexpr std::size_t points = 9;  // of a smooth curve: attention's part of it is a parabola
  for (std::size_t i = 0; i < points; ++i) {
    const std::int64_t length = all[i * (all.size() - 1) / (points - 1)];
    if (measured_.contains(length)) continue;
    const auto model = scenario.lengths->model_at(length);
    const std::int64_t micro = std::max<std::int64_t>(1, batch_ / scenario.strategy.accumulation);
    const StepTimes times =
        step_times(*model, *scenario.profile, scenario.precision, micro, scenario.optimizer);
    double passes = 0, rest = 0;
    for (const auto* items : {&times.forward, &times.backward})
      for (const StepItem& item : *items) passes += item.device;
    for (const auto* items : {&times.before, &times.update})
      for (const StepItem& item : *items) rest += item.device;
    measured_[length] = passes * scenario.strategy.accumulation + rest;
  }
}

double UnequalSteps::compute(std::int64_t length) const {
  return measured_.size() == 1 ? measured_.begin()->second : at_batch(measured_, length).value;
}

Scenario UnequalSteps::scenario_of(const LengthDraw& draw) const {
  Scenario made = scenario_;
  made.lengths = nullptr;
  const std::int64_t longest = draw.longest();
  if (longest != scenario_.model->sequence) made.model = scenario_.lengths->model_at(longest);
  std::vector<double>& factors = made.cluster.topology.compute_factors;
  factors.resize(made.cluster.topology.workers.size(), 1.0);
  const double slowest = compute(longest);
  for (std::size_t rank = 0; rank < draw.rows.size(); ++rank)
    if (slowest > 0) factors[rank] *= compute(draw.rows[rank]) / slowest;
  return made;
}

double UnequalSteps::waiting(const LengthDraw& draw) const {
  const double slowest = compute(draw.longest());
  double sum = 0;
  for (const std::int64_t row : draw.rows) sum += slowest - compute(row);
  return sum / static_cast<double>(draw.rows.size());
}

}  // namespace foretrain
