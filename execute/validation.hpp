// Predictions against measurements: one row a scenario that was run, with its repeats joined; how far we were
// off, how often the interval held, and how the naive predictor fares on the same rows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "execute/run_record.hpp"
#include "sim/output/result.hpp"

namespace foretrain {

// What the simulator says today to a record's scenario. Where it cannot say anything, `problem` tells why.
struct Reprediction {
  std::optional<double> step, low, high;  // median and its 90 % interval, seconds
  std::vector<std::string> distance;      // of the profile it rests on
  std::string
      how;  // what else tells rows of one batch apart: "x512" (a given length), "pad_batch", "captured"
  std::string kind;           // kind_of() its scenario
  double gradient_bytes = 0;  // a worker's, a step
  double slowest_link = 0;    // bytes per second and direction, of the links that gradients cross
  std::optional<JobPrediction> job;
  std::string caveat;  // what to know of it
  std::string problem;
};

// A record and the file it came from.
struct FiledRecord {
  std::string file;
  RunRecord record;
};

using Repredict = std::function<Reprediction(const FiledRecord&)>;

// Times in seconds, errors as fractions.
struct ValidationRow {
  std::string scenario, group, model, strategy;
  Precision precision = Precision::fp32;
  std::int64_t batch_per_worker = 0;
  int workers = 0, nodes = 1;
  std::string network;
  double measured = 0, measured_p05 = 0, measured_p95 = 0;  // median over repeats
  int repeats = 1, steps = 0;
  double repeat_spread = 0;  // (largest - smallest) / median of the repeats' medians; 0 for one repeat
  std::optional<double> predicted_before, predicted;
  std::optional<double> low, high;  // of predicted_before; of predicted where nothing was predicted before
  std::optional<double> naive;      // none for one worker: it would be the measured step itself
  std::optional<double> error;      // of predicted_before; of predicted where nothing was predicted before
  std::optional<bool> hit;          // low <= measured <= high
  std::vector<std::string> distance;
  // Of the slowest device while the counted steps ran, medians over the repeats that tell: clock over what
  // the device can, fraction of the time that the clock was held back (power cap, heat).
  std::optional<double> clock, throttled;
  std::optional<double> memory_error;  // predicted peak of a GPU over the measured, less one
  Reprediction now;
  std::vector<std::string> notes;

  bool noisy() const;  // its repeats differ by more than 2 %
};

// A part of a job's time, in seconds. Without `measured` it did not happen, without the others it was not
// predicted.
struct JobPartRow {
  std::string what;  // "phase 1: batch 128 on 1", "evaluation", "checkpoint", "startup", "rescale",
                     // "looks at the loss", "total"
  int count = 0;     // updates of a phase; else how often it happened
  double measured = 0;
  std::optional<double> predicted_before, predicted;
  std::optional<double> error;  // of predicted_before; of predicted where nothing was predicted before
};

// A run of a whole job; the last part is the total.
struct JobRow {
  std::string file, scenario;
  std::vector<JobPartRow> parts;
  std::vector<std::string> notes;
};

struct ErrorSummary {
  int rows = 0;  // that the errors count: with a prediction, not noisy
  double mean_abs_error = 0, max_abs_error = 0, mean_error = 0;
  double coverage = 0;  // of all rows with a prediction, noisy ones too
  double interval_width = 0;
  // Over the rows with a naive prediction; skill: 1 - our mean |error| on them / its.
  std::optional<double> naive_mean_abs_error, skill;
};

struct NamedSummary {
  std::string name;
  ErrorSummary summary;
};

struct Validation {
  std::vector<ValidationRow> rows;                // worst first
  std::vector<JobRow> jobs;                       // in the order of the records
  ErrorSummary summary;                           // of the predictions made before
  std::vector<NamedSummary> groups, by_distance;  // worst first; rows without distance: "in_sample"
  std::vector<NamedSummary> by_kind;              // of kind_of(), worst first
  ErrorSummary now;                               // of what the simulator says today
  std::vector<NamedSummary> now_by_distance;
  std::optional<double> memory_mean_abs_error, memory_max_abs_error;
};

// Left out and named in `skipped`: records without a counted step, and those whose costs others of the
// records were predicted with (`run --costs-from`).
Validation validate_records(std::span<const FiledRecord> records, const Repredict& repredict,
                            std::vector<std::string>& skipped);

// T1/3 + max(2/3 T1, ring bytes / line rate): the backward pass, two thirds of the step, hides communication
// as far as it reaches. A ring over n workers sends 2 (n - 1) / n x gradient bytes per direction.
double naive_step(double one_worker_step, double gradient_bytes, int workers, double line_rate);

}  // namespace foretrain
