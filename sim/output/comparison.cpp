#include "sim/output/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/base/parse_units.hpp"
#include "sim/output/caveats_json.hpp"

namespace foretrain {
namespace {

double computing_seconds(const Result& result) {
  return result.step.time - result.step.breakdown.exposed_communication - result.step.breakdown.waiting;
}

// Updates of the job, or of one sample.
double updates_of(const Result& result, bool of_jobs) {
  return of_jobs ? static_cast<double>(result.job->updates) : 1 / static_cast<double>(result.batch_global);
}

// The step, or the mean update of a job whose steps differ.
double update_seconds(const Result& result, bool of_jobs) {
  if (!of_jobs || result.job->updates == 0) return result.step.time;
  return result.job->training / static_cast<double>(result.job->updates);
}

std::vector<std::string> warnings_of(std::span<const Result> results, bool of_jobs) {
  std::vector<std::string> warnings;
  std::vector<std::string> models;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  bool any_job = false;
  for (const Result& result : results) {
    // A mere list of parameters is called as its scenario: it is told by its size.
    const std::string model = result.model == result.scenario
                                  ? fmt::format("{:.0f} bytes of parameters", result.memory.parameters)
                                  : result.model;
    if (std::find(models.begin(), models.end(), model) == models.end()) models.push_back(model);
    if (!result.job) continue;
    any_job = true;
    least = std::min(least, result.job->samples);
    most = std::max(most, result.job->samples);
  }
  if (models.size() > 1)
    warnings.push_back(fmt::format(
        "the models differ ({}): the ratios are of samples, and a sample is not the same work to each",
        fmt::join(models, ", ")));
  constexpr double rounding = 1.01;  // of short last batches
  if (of_jobs && most > rounding * least)
    warnings.push_back(
        fmt::format("the jobs pass over {:.0f} to {:.0f} samples: 'updates' holds that as well as the batch",
                    least, most));
  if (!of_jobs && any_job)
    warnings.emplace_back("not all of them have a job: their steps are compared, not what the jobs take");
  return warnings;
}

std::string factor(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

}  // namespace

Comparison compare(std::span<const Result> results) {
  Comparison comparison;
  comparison.of_jobs = std::all_of(results.begin(), results.end(),
                                   [](const Result& result) { return result.job.has_value(); });
  const bool of_jobs = comparison.of_jobs;
  const Result& first = results[0];
  for (const Result& result : results) {
    ComparisonRow row;
    row.scenario = result.scenario;
    row.workers = result.workers;
    row.time = of_jobs ? result.job->time : result.step.time;
    row.fewer_updates = updates_of(first, of_jobs) / updates_of(result, of_jobs);
    row.compute = computing_seconds(first) / computing_seconds(result);
    row.network = update_seconds(first, of_jobs) / update_seconds(result, of_jobs) / row.compute;
    row.speedup = of_jobs && result.job->time > 0 ? first.job->time / result.job->time
                                                  : row.fewer_updates * row.compute * row.network;
    row.rest = row.speedup / (row.fewer_updates * row.compute * row.network);
    row.gpu_time = of_jobs && first.job->gpu_hours > 0
                       ? result.job->gpu_hours / first.job->gpu_hours
                       : static_cast<double>(result.workers) / first.workers / row.speedup;
    if (of_jobs && first.job->cost && result.job->cost && first.job->currency == result.job->currency &&
        *first.job->cost > 0) {
      row.cost = *result.job->cost / *first.job->cost;
    }
    row.warnings = result.warnings;
    row.extrapolated = result.extrapolated;
    comparison.rows.push_back(std::move(row));
  }
  comparison.warnings = warnings_of(results, of_jobs);
  return comparison;
}

std::string comparison_text(const Comparison& comparison, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right,
                   Align::right, Align::right});
  constexpr int name_room = 14;
  table.add({"against first", "workers", comparison.of_jobs ? "job" : "step", "speedup", "updates", "compute",
             "network", "GPU time"});
  std::vector<std::string> names;
  for (const ComparisonRow& row : comparison.rows) names.push_back(row.scenario);
  names = distinct_names(std::move(names), name_room, style);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ComparisonRow& row = comparison.rows[i];
    table.add({names[i], std::to_string(row.workers), format_time(row.time), factor(row.speedup),
               factor(row.fewer_updates), factor(row.compute), factor(row.network), factor(row.gpu_time)});
  }
  std::string out = table.text();
  out +=
      wrapped("speedup: " + std::string(comparison.of_jobs ? "of the job" : "for the same samples") +
                  " = updates x compute x network" + (comparison.of_jobs ? " x rest" : "") +
                  "; updates: fewer of them, by a larger batch; compute: a step without communication" +
                  (comparison.of_jobs ? ", of the first phase" : "") + "; network: less waiting for it" +
                  (comparison.of_jobs ? ", and steps that differ by phase; rest: evaluation, checkpoints and "
                                        "the like (in --json)"
                                      : "") +
                  "; GPU time: worker-seconds, below 1 is cheaper",
              style.width, "", "  ");
  for (const std::string& warning : comparison.warnings)
    out += wrapped(warning, style.width, inked("warning:", Ink::yellow, style) + ' ', "  ");
  return out;
}

void write_comparison_json(const Comparison& comparison, const TextSink& sink) {
  JsonWriter writer(sink);
  writer.begin_object();
  writer.member("schema", "foretrain/comparison/1");
  writer.member("version", FORETRAIN_VERSION);
  writer.member("time_of", comparison.of_jobs ? "job" : "step");
  writer.key("rows");
  writer.begin_array();
  for (const ComparisonRow& row : comparison.rows) {
    writer.begin_object();
    writer.member("scenario", row.scenario);
    writer.member("workers", row.workers);
    writer.member("time_s", row.time);
    writer.member("speedup", row.speedup);
    writer.member("fewer_updates", row.fewer_updates);
    writer.member("compute", row.compute);
    writer.member("network", row.network);
    writer.member("rest", row.rest);
    writer.member("gpu_time", row.gpu_time);
    writer.key("cost");
    if (row.cost) {
      writer.value(*row.cost);
    } else {
      writer.null();
    }
    write_caveats(writer, row.warnings, row.extrapolated);
    writer.end_object();
  }
  writer.end_array();
  writer.key("warnings");
  writer.begin_array();
  for (const std::string& warning : comparison.warnings) writer.value(warning);
  writer.end_array();
  writer.end_object();
}

}  // namespace foretrain
