// `job:`, `input:`, `host:` and `observed:` of a scenario.
#pragma once

#include <memory>

#include "sim/input/document.hpp"
#include "sim/input/fields.hpp"
#include "sim/input/job.hpp"
#include "sim/input/observed.hpp"

namespace foretrain {

// What the job's keys are held against.
struct JobContext {
  std::int64_t samples = 0;  // of the data set; 0: not known
  int workers = 0;           // of the cluster; 0: not known
  std::int64_t batch = 0;    // global, where there is no schedule
};

// `job` has been checked against its table. Everything but the baseline.
Job read_job(const Fields& job, const JobContext& context, Diagnostics& diagnostics);

InputPipeline read_input(const Fields& input, Diagnostics& diagnostics);
HostDescription read_host(const Fields& host);
Observed read_observed(const Fields& observed, Diagnostics& diagnostics);

// A curve from CSV: a column `updates` (or `steps`) or `epochs`, a column `loss` or `accuracy`, and `run`
// where there are several; lines that begin with # are left out. Findings name file and line.
std::shared_ptr<const Curve> parse_curve(std::string_view text, const std::string& file,
                                         Diagnostics& diagnostics);

}  // namespace foretrain
