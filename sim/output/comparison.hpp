// Results held against the first of them, and what the difference is made of.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/output/json_writer.hpp"
#include "sim/output/result.hpp"
#include "sim/output/text_layout.hpp"

namespace foretrain {

// Factors are those by which the result is faster than the first: above 1 is better. The time for the same
// samples is updates x step, and a step is its computing part (without exposed communication and waiting)
// times what communication adds, so that speedup = fewer_updates x compute x network, exactly. Of jobs the
// time of an update is the mean over their phases, `compute` is that of the first phase, and what is no
// training is the `rest`: speedup = fewer_updates x compute x network x rest.
struct ComparisonRow {
  std::string scenario;
  int workers = 0;
  double time = 0;             // of the job, or of a step where not all results have a job
  double speedup = 1;          // of the job, or for the same number of samples
  double fewer_updates = 1;    // larger global batch
  double compute = 1;          // more workers, another batch per worker, device, precision or model
  double network = 1;          // less exposed communication and waiting
  double rest = 1;             // of jobs: less evaluation, saving, start-up; 1 for steps
  double gpu_time = 1;         // ratio of worker-seconds for the same samples: below 1 is cheaper
  std::optional<double> cost;  // ratio
  std::vector<std::string> warnings;
  std::vector<Extrapolation> extrapolated;
};

struct Comparison {
  bool of_jobs = false;  // whether all results have a job
  std::vector<ComparisonRow> rows;
  std::vector<std::string> warnings;  // of what makes the ratios mean less
};

// The first row is all ones. Needs a result at least.
Comparison compare(std::span<const Result> results);

std::string comparison_text(const Comparison& comparison, const TextStyle& style);
// "schema": "foretrain/comparison/1".
void write_comparison_json(const Comparison& comparison, const TextSink& sink);

}  // namespace foretrain
