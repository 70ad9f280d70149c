#include "sim/training/unequal_lengths.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/training/batch_curve.hpp"
#include "sim/training/step_times.hpp"

namespace foretrain {
namespace {

// Of rows of `length`, that samples put one behind the other leave filled: each goes where it first fits.
double filled_by_packing(const LengthDraws& lengths, std::int64_t length, std::uint64_t seed) {
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

LengthDraws::LengthDraws(const SequenceLengths& lengths, std::int64_t batch, std::uint64_t seed)
    : lengths_(lengths), batch_(batch), seed_(seed) {
  for (const LengthCount& each : lengths.histogram) cumulated_.push_back(sum_ += each.weight);
}

std::int64_t LengthDraws::quantile(double u) const {
  const auto found = std::lower_bound(cumulated_.begin(), cumulated_.end(), u * sum_);
  const auto place = std::min<std::ptrdiff_t>(found - cumulated_.begin(), std::ssize(cumulated_) - 1);
  return lengths_.histogram[static_cast<std::size_t>(place)].length;
}

LengthDraws::Top LengthDraws::top_of(std::uint64_t draw, int worker) const {
  RandomStream random(seed_, {18, draw, static_cast<std::uint64_t>(worker)});
  // The largest of `batch` uniform numbers is the root of one.
  const double bucket = random.uniform();
  return {bucket, std::pow(random.uniform(), 1.0 / static_cast<double>(batch_))};
}

std::int64_t LengthDraws::row(std::uint64_t draw, int worker) const {
  const Top drawn = top_of(draw, worker);
  if (lengths_.batching == LengthBatching::pad_batch) return lengths_.padded(quantile(drawn.top));
  if (lengths_.batching == LengthBatching::bucketed) {
    const double bucket = std::floor(drawn.bucket * lengths_.buckets);
    return lengths_.padded(quantile((bucket + drawn.top) / lengths_.buckets));
  }
  return lengths_.longest();
}

LengthDraw LengthDraws::of_step(std::uint64_t draw, int workers) const {
  LengthDraw made;
  for (int worker = 0; worker < workers; ++worker) made.rows.push_back(row(draw, worker));
  return made;
}

std::vector<std::vector<std::int64_t>> LengthDraws::samples(std::uint64_t draw, int worker) const {
  if (lengths_.batching == LengthBatching::packed) return packed(draw, worker);
  const Top drawn = top_of(draw, worker);
  const bool is_bucketed = lengths_.batching == LengthBatching::bucketed;
  const double bucket = std::floor(drawn.bucket * lengths_.buckets);
  RandomStream random(seed_, {19, draw, static_cast<std::uint64_t>(worker)});
  std::vector<std::vector<std::int64_t>> rows;
  for (std::int64_t n = 0; n < batch_; ++n) {
    // One is the largest, the others lie below it.
    const double u = n == 0 ? drawn.top : drawn.top * random.uniform();
    rows.push_back({quantile(is_bucketed ? (bucket + u) / lengths_.buckets : u)});
  }
  return rows;
}

// First fit into the rows of the batch, until some samples in a row have fitted nowhere.
std::vector<std::vector<std::int64_t>> LengthDraws::packed(std::uint64_t draw, int worker) const {
  constexpr int most_misfits = 8;
  const std::int64_t length = lengths_.longest();
  RandomStream random(seed_, {19, draw, static_cast<std::uint64_t>(worker)});
  std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(batch_));
  std::vector<std::int64_t> left(rows.size(), length);
  for (int misfits = 0; misfits < most_misfits;) {
    const std::int64_t sample = quantile(random.uniform());
    const auto place =
        std::find_if(left.begin(), left.end(), [&](std::int64_t room) { return room >= sample; });
    if (place == left.end()) {
      ++misfits;
      continue;
    }
    misfits = 0;
    *place -= sample;
    rows[static_cast<std::size_t>(place - left.begin())].push_back(sample);
  }
  return rows;
}

std::vector<std::int64_t> LengthDraws::possible_rows() const {
  std::set<std::int64_t> rows{lengths_.longest()};
  const bool vary =
      lengths_.batching == LengthBatching::pad_batch || lengths_.batching == LengthBatching::bucketed;
  for (const LengthCount& each : lengths_.histogram)
    if (vary) rows.insert(lengths_.padded(each.length));
  return {rows.begin(), rows.end()};
}

DrawnLengths draw_lengths(const SequenceLengths& lengths, std::int64_t batch, int workers, int draws,
                          std::uint64_t seed) {
  const LengthDraws drawn(lengths, batch, seed);
  DrawnLengths out;
  out.useful = lengths.mean();
  double positions = 0;
  for (int draw = 1; draw <= draws; ++draw) {
    out.draws.push_back(drawn.of_step(static_cast<std::uint64_t>(draw), workers));
    for (const std::int64_t row : out.draws.back().rows) positions += static_cast<double>(row);
  }
  out.padded = positions / (static_cast<double>(draws) * workers);
  if (lengths.batching == LengthBatching::packed) {
    const auto longest = static_cast<double>(lengths.longest());
    const double filled = filled_by_packing(drawn, lengths.longest(), seed);
    out.samples_a_row = filled * longest / std::max(1.0, out.useful);
    out.useful = filled * longest;
  }
  return out;
}

UnequalSteps::UnequalSteps(const Scenario& scenario, std::int64_t batch, int workers, std::uint64_t seed)
    : scenario_(scenario),
      batch_(batch),
      drawn_(draw_lengths(*scenario.lengths, batch, workers, many_draws, seed)) {
  std::set<std::vector<std::int64_t>> different;
  for (const LengthDraw& draw : drawn_.draws) different.insert(draw.rows);
  if (different.size() > most_different)
    drawn_ = draw_lengths(*scenario.lengths, batch, workers, few_draws, seed);
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
