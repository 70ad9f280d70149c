// What a prediction says, in the words of the result JSON (schema foretrain/result/1). Seconds and bytes
// everywhere. Filled by sim/training (step) and sim/job (job); written by one reporter a format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/input/scenario.hpp"

namespace foretrain {

struct Breakdown {
  double forward = 0, backward = 0, optimizer = 0, exposed_communication = 0, waiting = 0, host = 0,
         input = 0;
  double total() const {
    return forward + backward + optimizer + exposed_communication + waiting + host + input;
  }
};

struct StepPrediction {
  double time = 0;                             // = p50
  double mean = 0, p05 = 0, p50 = 0, p95 = 0;  // spread of single steps
  double low = 0, high = 0;                    // 90 % interval for the median step of a run
  Breakdown breakdown;                         // of the median step, sums to time
  std::uint64_t events = 0;                    // simulated for it
};

struct LinkUse {
  std::string name;  // a class of equal links
  std::int64_t count = 0;
  double bandwidth = 0;       // bytes per second, payload (line rate x efficiency)
  double bytes_per_step = 0;  // on the busiest link of the class
  double utilisation = 0;     // <= 1
};

struct Limiting {
  std::string kind;  // gpu, host, network, input, straggler
  std::string link;  // class of the link, empty where none
  std::string text;  // a sentence a person can act on
};

struct Remedy {
  std::string change;
  double step = 0;
  double speedup = 1;
  std::string cost;  // what it costs, in words
};

// The step with one input 10 % better, everything else as it is.
struct Sensitivity {
  std::string input;   // "network bandwidth"
  std::string change;  // "10 % more"
  double step = 0;
  double speedup = 1;
  bool critical = false;  // it changes the step by 0.1 % or more
};

struct BreakEven {
  double bandwidth_next_node = 0;  // the rate at which one more node pays; 0 where none does
  double bandwidth_hidden = 0;     // the rate from which communication is hidden; 0 where none is
};

struct Memory {
  double peak = 0, parameters = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0, buckets = 0;
  double capacity = 0;  // 0 where not known
  bool fits = true;
};

struct Extrapolation {
  std::string what, asked, range;
};

struct JobPhase {
  double epochs = 0;
  std::int64_t batch = 0;  // global, of the first update
  int workers = 0;
  double step = 0;
  std::int64_t updates = 0;
  double time = 0;  // of the updates alone
  double samples = 0;
  double learning_rate = 0, learning_rate_end = 0;  // of the first and the last update
};

// The state of a job after an update.
struct JobPoint {
  double time = 0, epochs = 0;
  std::int64_t updates = 0, batch = 0;
  int workers = 0;
  double learning_rate = 0;
  std::optional<double> value;  // of the curve: loss or accuracy
};

// Ratios of the baseline's to the job's: above 1 the job takes less.
struct JobSpeedup {
  std::string baseline;
  double time = 1, updates = 1, gpu_hours = 1;
  std::optional<double> cost;
};

// When the curve reaches the target: low and high are the earliest and the latest reading of it.
struct JobTarget {
  std::string what;  // "loss", "accuracy"
  double value = 0;
  bool reached = false;
  double updates = 0, time = 0, low = 0, high = 0;
  int runs = 0;
};

struct JobFailures {
  double count = 0;  // mean of the draws
  double lost = 0;   // seconds of training done again
  double restarting = 0;
  int draws = 0;
};

struct JobPrediction {
  double time = 0;
  double low = 0, high = 0;  // 90 % interval
  std::int64_t updates = 0;
  double epochs = 0;
  double samples = 0;
  double gpu_hours = 0;
  std::optional<double> cost;
  std::string currency;
  std::string price_date;
  std::optional<double> energy;  // joules
  double training = 0, evaluation = 0, checkpoint = 0, startup = 0, rescale = 0;
  double input = 0, logging = 0, adaptation = 0, failing = 0;
  std::vector<JobPhase> phases;
  std::optional<JobSpeedup> speedup;
  std::optional<JobTarget> target;
  std::optional<JobFailures> failures;
  double checkpoint_bytes = 0;
  std::string samples_law;           // "fixed_epochs"
  Origin origin = Origin::assumed;   // of the number of epochs at this batch
  std::string assumption;            // "equal epochs, accuracy not predicted"
  std::vector<std::string> answers;  // sentences
  std::vector<JobPoint> progress;    // some hundred, spread over the job
  std::uint64_t events = 0;          // simulated for it
};

struct Communication {
  double bytes_per_worker = 0;  // payload of the gradients, not of the wire
  int collectives = 0;
  double busy = 0, exposed = 0, overlap = 0;  // seconds, seconds, fraction hidden
};

// Of samples of unequal lengths.
struct SequenceUse {
  std::string batching;
  double useful_length = 0, row_length = 0;  // positions of a row that are no padding, and all, in the mean
  double padding = 0;                        // share of the positions
  double useful_per_second = 0, padded_per_second = 0;  // units: without and with padding
  double waiting = 0;  // seconds a step that the mean worker's kernels end before the slowest one's
};

struct GpuUse {
  double busy = 0, computing = 0, communicating = 0;  // fractions of the step
  double launches = 0;                                // a step, where they are known
  double launching = 0;                               // seconds of a step that its host needs for them
};

struct Result {
  static constexpr const char* schema = "foretrain/result/1";
  std::string scenario;
  std::string question;  // the first comment of the scenario's file: a heading
  std::uint64_t seed = 1;
  bool complete = true;
  std::vector<ResolvedInput> inputs;
  std::string model, profile, precision, strategy, topology;  // for headings
  std::string kind;  // kind_of(): what validation sums its rows up by
  std::string unit = "images";
  int workers = 0, nodes = 0;
  std::int64_t batch_global = 0, batch_per_worker = 0;
  StepPrediction step;
  double samples_per_second = 0, units_per_second = 0;
  double speedup = 1, efficiency = 1;
  int baseline_workers = 1;
  Communication communication;
  std::vector<LinkUse> links;
  Limiting limiting;
  std::vector<Remedy> remedies;
  std::optional<BreakEven> break_even;
  std::vector<Sensitivity> sensitivity;  // largest first
  GpuUse gpu;
  std::optional<SequenceUse> sequences;
  Memory memory;
  std::optional<JobPrediction> job;
  std::vector<std::string> warnings;
  std::vector<Extrapolation> extrapolated;
  std::uint64_t events = 0;  // simulated for it; no part of the answer, and in no file
};

}  // namespace foretrain
