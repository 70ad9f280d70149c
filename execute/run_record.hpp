// What one run of a scenario did: the prediction made before its first step, every step's time on every rank,
// what was sampled beside it, and all that is needed to run it again. Stored as JSON ("foretrain/run/1", .gz
// by extension) by execute/run_record_json; read by validate. tools/foretrain_record.py writes the same for
// PyTorch jobs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/training/profile.hpp"

namespace foretrain {

struct BucketTiming {
  std::int64_t bytes = 0;
  std::string collective;     // "all_reduce", "reduce", "broadcast"
  std::vector<double> ready;  // seconds after the step began: all gradients of the bucket complete
  std::vector<double> finished;
};

// One rank. Vectors hold one value a counted step, in seconds; empty where not measured.
struct RankRecord {
  int rank = 0, node = 0;
  std::string host, gpu;
  std::vector<double> step;       // device clock, end of step to end of step
  std::vector<double> step_host;  // host clock
  // Of every RunRecord::phase_every-th counted step, beginning with the first; so are the buckets' times.
  std::vector<double> forward, backward, exposed_communication, optimizer;
  std::vector<BucketTiming> buckets;
  // Of samples of unequal lengths: what the rank's rows held in each counted step, in the model's units, and
  // with the padding.
  std::vector<double> useful_units, padded_units;
  std::vector<double> warmup;  // steps before those that count
  double peak_bytes = 0;       // device memory
  double launches = 0;         // a step
  std::uint64_t checksum = 0;  // of the weights at the end
  double first_loss = 0, last_loss = 0;
  std::vector<double> loss;  // of every counted step, before its update, where it was asked for
};

// Sampled beside the run; times in seconds since the first counted step (negative in the warm-up).
struct MonitorSeries {
  std::string what;  // "gpu_use", "gpu_memory", "network_sent", "network_received", "cpu", "resident"
  std::string unit;  // "fraction", "bytes", "bytes/s"
  int node = 0, device = -1;
  std::vector<double> time, value;
};

// A device's clocks while the counted steps ran, from samples; where the backend tells them.
struct ClockRecord {
  int node = 0, device = 0;
  int samples = 0;
  double sm_hz = 0, sm_low_hz = 0;            // median, 5th percentile
  double sm_max_hz = 0;                       // what the device can
  double power_watts = 0, temperature = 0;    // medians
  double throttled = 0;                       // fraction of the samples
  std::vector<std::string> throttle_reasons;  // any that was seen
};

struct MonitorFinding {
  double time = 0;
  std::string what;   // "spike", "dip", "leak"
  std::string cause;  // "first step", "evaluation", "checkpoint", "batch load", "" where not known
  std::string text;
};

// One look at the noise of gradients (execute/noise_scale): means over the ranks.
struct NoiseLook {
  std::int64_t update = 0;
  double gradient_squared = 0;  // |G|^2 of the gradient without noise; an estimate, and may be negative
  double trace = 0;             // of the covariance of one sample's gradient
};

// A stretch of a job: one phase of a schedule, an evaluation, a checkpoint.
struct RunEvent {
  std::string what;           // "phase", "evaluation", "checkpoint", "rescale", "startup", "noise scale",
                              // "checkpoint write": beside training; "adaptation": a look at the loss
  double begin = 0, end = 0;  // seconds since the start of the run
  std::int64_t step = 0;      // updates done at its begin
  std::int64_t batch = 0;     // global
  int workers = 0;
  double bytes = 0;  // of a checkpoint
  int phase = -1;    // of the schedule's list, in a "phase"; -1: not known
  double loss = 0;   // over the data, of an "adaptation"
};

// Samples of unequal lengths over the counted steps.
struct SequencesRecord {
  std::string batching;                                 // of sim/input/sequence_lengths
  double padding = 0;                                   // share of all positions
  double useful_per_second = 0, padded_per_second = 0;  // of the model's units, of all ranks
  double waiting = 0;  // seconds by which the mean rank's backward pass ends before the last one's
};

struct PredictionBefore {
  std::string time;                    // UTC, when it was written
  std::string digest;                  // SHA-256 of the prediction's JSON
  double step = 0, low = 0, high = 0;  // median and its 90 % interval, seconds
  double one_worker_step = 0;          // predicted step of one worker at the same batch per worker
  double peak_bytes = 0;
  std::vector<std::string> distance;  // what calibration had not seen: names_of(distance) of execute/distance
  std::string json;                   // the whole result (foretrain/result/1)
};

struct ParameterRecord {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string element;  // "fp32", "bf16"
};

struct RunRecord {
  static constexpr const char* schema = "foretrain/run/1";
  bool complete = true;
  std::string source;                        // "foretrain", "pytorch", ...
  std::string date, command, foretrain;      // UTC; version
  std::string scenario_name, scenario_yaml;  // the text as read
  std::string scenario_file;                 // where it was read: names in it may stand beside
  std::vector<std::string> overrides;
  std::string group;  // of a campaign
  int repeat = 0;     // which of several runs of the same row
  std::string model;
  Precision precision = Precision::fp32;
  std::string strategy;
  std::int64_t batch_per_worker = 0;
  std::int64_t sequence = 0;  // 0 where the model has none
  int workers = 0, nodes = 1;
  std::string network;   // "nvlink", "ethernet 10 Gbit/s tcp"
  double line_rate = 0;  // bytes per second and direction, 0 within a node
  int warmup_steps = 0;
  double soak = 0;                 // seconds of steps under load before the warm-up
  std::int64_t resumed_after = 0;  // updates of a job that an earlier run had done
  int phase_every = 1;             // phases and buckets are timed on every k-th counted step
  std::string profile_digest;      // SHA-256 of the profile's file
  std::vector<std::string> profile_names;
  std::optional<PredictionBefore> prediction;
  std::vector<ParameterRecord> parameters;      // registration order
  std::map<std::string, std::string> versions;  // of what trained, beside the machine's: "torch"
  Machine machine;
  std::vector<RankRecord> ranks;
  std::vector<RunEvent> events;
  std::vector<MonitorSeries> monitor;
  std::vector<ClockRecord> clocks;
  std::vector<NoiseLook> noise_looks;
  std::optional<SequencesRecord> sequences;
  double monitor_cost = 0;  // relative: steps with the monitor over steps without, less one
  std::vector<MonitorFinding> findings;
};

// Median, 5th and 95th percentile over the counted steps (of a job those of its first phase), where a step
// takes as long as on its slowest rank.
struct MeasuredStep {
  double median = 0, p05 = 0, p95 = 0;
  int steps = 0;
};
MeasuredStep measured_step(const RunRecord& record);

// From what the ranks recorded; nothing where no rows were noted.
std::optional<SequencesRecord> sequences_of(const std::vector<RankRecord>& ranks,
                                            const std::string& batching);

// "node 0 device 1: 1755 of 1980 MHz, 640 W, power cap in 64 % of 120 samples"
std::string clock_text(const ClockRecord& clock);

}  // namespace foretrain
