// The pieces that the console report is made of.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/output/result.hpp"
#include "sim/output/text_layout.hpp"
#include "sim/output/validation_summary.hpp"

namespace foretrain::console {

std::string grouped(double number);  // "16,410"; one decimal below 100
std::string whole(std::int64_t number);
std::string percent(double fraction);  // "89 %"

struct StepText {
  std::string step;      // "31.2 ms"
  std::string interval;  // "30.1-32.4", in the unit of the step
};
StepText step_with_interval(const StepPrediction& step);

// The parts of a step as a bar: computing, exposed communication, waiting, host, input.
std::string bar(const Breakdown& breakdown, int width, const TextStyle& style);
// What the signs of the bars stand for, those that occur.
std::string legend(std::span<const Result> results, const TextStyle& style);

// The question, and what all results have in common.
std::string heading(std::span<const Result> results, const TextStyle& style);
// Where one step's time goes, the links, the memory, the job.
std::string details(const Result& result, const TextStyle& style);
// A job: its time with what it is made of, its phases, what it is compared with (console_job.cpp).
std::string job_details(const JobPrediction& job, const TextStyle& style);
// A line a result with a job: updates, time, GPU-hours, cost, speedup. Empty where none has one.
std::string job_table(std::span<const Result> results, const std::vector<std::vector<std::string>>& labels,
                      const TextStyle& style);

// What the result rests on, each with its origin.
std::string inputs(const Result& result, const TextStyle& style);
// How good predictions of the results' kinds were, a line each: "last validated (images, one GPU): mean 1.2
// %, worst 3.4 %, 36 rows". Of a kind without rows what all kinds say.
std::vector<std::string> validation_lines(std::span<const Result> results,
                                          const std::optional<ValidationSummary>& validation);
// What lies outside of what is known, a text for each thing with all that was asked of it.
std::vector<std::string> extrapolations(const Result& result);
// What the step gains from each input, and which are not critical.
std::string sensitivity(std::span<const Result> results, const TextStyle& style);
// What would help, best first.
std::string remedies(std::span<const Result> results, const TextStyle& style);

}  // namespace foretrain::console
