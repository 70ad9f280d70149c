#include "execute/parts_validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/base/error.hpp"
#include "sim/training/predict.hpp"
#include "sim/training/step_simulation.hpp"

namespace foretrain {
namespace {

// Of its model, precision, batch and length.
template <typename Entry>
bool is_of(const StepEntry& step, const std::string& model, const Entry& e) {
  return step.model == model && step.precision == e.precision && step.batch == e.batch &&
         step.sequence == e.sequence;
}

std::shared_ptr<const Profile> without_batch(const Profile& profile, const StepEntry& step) {
  auto rest = std::make_shared<Profile>(profile);
  std::erase_if(rest->operators, [&](const OperatorEntry& e) { return is_of(step, e.context, e); });
  std::erase_if(rest->step_work, [&](const StepWorkEntry& e) { return is_of(step, e.model, e); });
  for (StepEntry& e : rest->steps) {
    if (is_of(step, e.model, e)) e.step = {};
  }
  return rest;
}

// Whole steps correct what the parts add up to: parts by themselves.
std::shared_ptr<const Profile> without_whole_steps(const Profile& profile) {
  auto rest = std::make_shared<Profile>(profile);
  for (StepEntry& e : rest->steps) e.step = {};
  return rest;
}

std::shared_ptr<const Profile> without(const Profile& profile, const OverlapEntry& overlap) {
  auto rest = std::make_shared<Profile>(profile);
  std::erase_if(rest->overlaps, [&](const OverlapEntry& e) {
    return e.model == overlap.model && e.precision == overlap.precision && e.batch == overlap.batch &&
           e.sequence == overlap.sequence && e.ranks == overlap.ranks;
  });
  return rest;
}

std::set<std::int64_t> batches_of(const Profile& profile, const StepEntry& step) {
  std::set<std::int64_t> batches;
  for (const OperatorEntry& e : profile.operators) {
    if (e.context == step.model && e.precision == step.precision && e.sequence == step.sequence)
      batches.insert(e.batch);
  }
  return batches;
}

class Predictor {
 public:
  Predictor(PartsValidation& out, const ScenarioOfModel& scenario_of)
      : out_(out), scenario_of_(scenario_of) {}

  // Fills the predicted side of a row and keeps it, or tells why not.
  void add(PartsRow row, std::shared_ptr<const Profile> profile) {
    try {
      Scenario scenario = scenario_of_(row.model, row.workers, row.sequence);
      scenario.profile = std::move(profile);
      scenario.step_times = nullptr;
      scenario.precision = row.precision;
      scenario.batch_per_worker = row.batch;
      scenario.batch_global = row.batch * row.workers;
      scenario.strategy.kind = row.workers > 1 ? StrategyKind::ddp : StrategyKind::independent;
      PredictOptions options;
      options.remedies = false;
      const Result result = predict(scenario, options);
      row.predicted = result.step.time;
      row.low = result.step.low;
      row.high = result.step.high;
      row.limiting = result.limiting.kind;
      if (row.measured_peak && result.memory.peak > 0) row.predicted_peak = result.memory.peak;
      if (row.workers > 1) {
        StepFactors factors;
        factors.interference = false;
        row.without_interference = StepSimulation(scenario).run(factors).seconds;
      }
      out_.rows.push_back(std::move(row));
    } catch (const Error& error) {
      out_.problems.push_back(
          fmt::format("{} {} batch {}{} ({}): {}", row.model, name_of(row.precision), row.batch,
                      row.sequence > 0 ? fmt::format(" x {}", row.sequence) : "", row.kind, error.what()));
    }
  }

 private:
  PartsValidation& out_;
  const ScenarioOfModel& scenario_of_;
};

PartsRow row_of(const StepEntry& step, const char* kind) {
  PartsRow row;
  row.kind = kind;
  row.model = step.model;
  row.precision = step.precision;
  row.batch = step.batch;
  row.sequence = step.sequence;
  row.measured = step.step.median;
  row.measured_p05 = step.p05;
  row.measured_p95 = step.p95;
  if (step.peak_bytes > 0) row.measured_peak = step.peak_bytes;
  return row;
}

PartsRow row_of(const OverlapEntry& overlap) {
  PartsRow row;
  row.kind = "overlap";
  row.model = overlap.model;
  row.precision = overlap.precision;
  row.batch = overlap.batch;
  row.sequence = overlap.sequence;
  row.workers = overlap.ranks;
  row.measured = overlap.step.median;
  row.measured_p05 = overlap.p05;
  row.measured_p95 = overlap.p95;
  return row;
}

struct Tally {
  PartsSummary summary;

  void add(const PartsRow& row, double predicted) {
    const double error = predicted / row.measured - 1;
    ++summary.rows;
    summary.mean_error += error;
    summary.mean_abs_error += std::abs(error);
    summary.max_abs_error = std::max(summary.max_abs_error, std::abs(error));
    summary.coverage += row.hit() ? 1 : 0;
  }
  void put_into(std::vector<PartsSummary>& all, const char* name) {
    if (summary.rows == 0) return;
    summary.name = name;
    summary.mean_error /= summary.rows;
    summary.mean_abs_error /= summary.rows;
    summary.coverage /= summary.rows;
    all.push_back(summary);
  }
};

std::vector<PartsSummary> summaries_of(const std::vector<PartsRow>& rows) {
  Tally whole, inside, ends, overlap, no_interference;
  for (const PartsRow& row : rows) {
    if (row.kind == "whole") whole.add(row, row.predicted);
    if (row.kind == "left_out") (row.extrapolated ? ends : inside).add(row, row.predicted);
    if (row.kind != "overlap") continue;
    overlap.add(row, row.predicted);
    no_interference.add(row, *row.without_interference);
  }
  std::vector<PartsSummary> all;
  whole.put_into(all, "whole");
  inside.put_into(all, "left_out");
  ends.put_into(all, "left_out_at_an_end");
  overlap.put_into(all, "overlap");
  no_interference.put_into(all, "overlap_without_interference");
  return all;
}

int order_of(const std::string& kind) {
  return kind == "whole" ? 0 : kind == "left_out" ? 1 : 2;
}

}  // namespace

PartsValidation validate_parts(const std::shared_ptr<const Profile>& profile,
                               std::span<const OverlapEntry> more, const ScenarioOfModel& scenario_of) {
  PartsValidation out;
  out.profile = profile->name;
  Predictor predictor(out, scenario_of);
  const std::shared_ptr<const Profile> parts = without_whole_steps(*profile);
  for (const StepEntry& step : profile->steps) {
    if (step.step.median <= 0) continue;
    predictor.add(row_of(step, "whole"), parts);
    const std::set<std::int64_t> batches = batches_of(*profile, step);
    constexpr std::size_t fewest = 3;
    if (batches.size() < fewest || !batches.contains(step.batch)) continue;
    PartsRow row = row_of(step, "left_out");
    row.measured_peak.reset();
    row.extrapolated = step.batch == *batches.begin() || step.batch == *batches.rbegin();
    predictor.add(std::move(row), without_batch(*profile, step));
  }
  for (const OverlapEntry& overlap : profile->overlaps)
    predictor.add(row_of(overlap), without(*profile, overlap));
  for (const OverlapEntry& overlap : more) predictor.add(row_of(overlap), profile);
  std::stable_sort(out.rows.begin(), out.rows.end(), [](const PartsRow& a, const PartsRow& b) {
    const int a_order = order_of(a.kind), b_order = order_of(b.kind);
    return a_order != b_order ? a_order < b_order : std::abs(a.error()) > std::abs(b.error());
  });
  out.summaries = summaries_of(out.rows);
  return out;
}

}  // namespace foretrain
