// The job of a scenario as its file gives it: how long, with which batches and workers, and what happens
// between updates.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/units.hpp"

namespace foretrain {

struct Scenario;

// What becomes of the samples that fill no whole global batch at the end of an epoch.
enum class LastBatch { keep, drop, carry };
const char* name_of(LastBatch last_batch);

// "1 epoch", "500 updates", "10 min": how often something happens, or where it begins.
struct Interval {
  enum class Unit { epochs, updates, time };
  Unit unit = Unit::epochs;
  double amount = 0;  // in epochs, updates or seconds; 0: never
};

struct Price {
  double per_gpu_hour = 0;
  std::string currency;  // "USD"
  std::string date;      // as the file gives it, empty where it gives none
};

struct Checkpoint {
  Interval every;
  Rate write;
  std::optional<Bytes> size;     // none: parameters and optimizer state in fp32
  bool asynchronous = false;     // training waits for the snapshot only
  Rate snapshot = Rate(12.5e9);  // device to host, of an asynchronous one
  Rate read{};                   // at a restart; 0: as fast as it is written
};

struct Evaluation {
  Interval every;
  std::int64_t samples = 0;
  std::int64_t batch_per_worker = 0;  // 0: that of training
  bool on_one_worker = false;         // the others wait
};

struct Logging {
  Interval every;
  double seconds = 0;  // each
};

// Exponentially distributed failures, independent of each other; each throws training back to the last
// finished checkpoint.
struct Failures {
  double mean_time = 0;  // seconds between failures of one unit
  enum class Unit { gpu, node, job };
  Unit unit = Unit::gpu;
  double restart = 0;  // seconds, beside the start-up and reading the checkpoint
};

// Slower updates after each start: caches, autotuning, memory pools.
struct WarmUp {
  std::int64_t updates = 0;
  double factor = 1;  // on their time
};

struct SchedulePhase {
  Interval from;
  std::int64_t batch = 0;
  std::optional<int> workers;
  std::optional<double> learning_rate;
  double learning_rate_factor = 1;  // beyond the largest batch
};

// How the global batch goes. GeoDamp and milestones are read into phases.
struct Schedule {
  enum class Rule { phases, padadamp, adadamp };
  Rule rule = Rule::phases;
  std::string name;  // as the file has it: "geodamp"; empty for a list of phases
  std::vector<SchedulePhase> phases;
  std::int64_t batch = 0;                 // padadamp, adadamp: at the beginning
  double rate = 0;                        // padadamp: samples by which the batch grows an update
  std::int64_t dwell = 1;                 // updates for which a batch is kept
  std::int64_t loss_samples = 0;          // adadamp: over which the loss is evaluated every `dwell` updates
  std::optional<std::int64_t> max_batch;  // beyond it the learning rate falls by max / batch
};

// How many workers train a batch. Where several are given, the least counts.
struct WorkerRule {
  std::optional<int> fixed;
  std::optional<std::int64_t> samples_per_worker;
  std::optional<int> most;
  std::optional<double> budget;  // GPU-hours of the whole job: as many workers as it pays for
};

// Workers for a batch on a cluster of `available`, its budget aside; at least one, at most one a sample.
int workers_for(const WorkerRule& rule, std::int64_t batch, int available);
// Samples of the workers that have most of a batch.
std::int64_t share_of(std::int64_t batch, std::int64_t workers);

struct LearningRateLaw {
  enum class Kind { constant, steps, noam, cosine };
  Kind kind = Kind::constant;
  double factor = 1;         // steps: at each milestone; noam: in front
  double dimension = 512;    // noam: width of the model
  double least = 0;          // cosine: at the end, as a part of the first
  Interval warmup;           // linear from 0; noam: its warm-up
  std::vector<Interval> at;  // steps: milestones
};

// What a batch costs in samples.
struct SamplesLaw {
  enum class Kind { fixed_epochs, critical_batch, gradient_noise };
  Kind kind = Kind::fixed_epochs;
  double scale = 0;                  // critical batch or noise scale, in samples
  std::int64_t reference_batch = 0;  // the batch for which the epochs are meant; 0: the first
  bool given = false;                // in the file
};

// Loss or accuracy by updates or epochs, of one run or several of the same job.
struct Curve {
  std::string file;
  bool by_epochs = false;
  bool is_accuracy = false;
  std::vector<std::vector<std::pair<double, double>>> runs;  // each ascending in its first
};

struct Target {
  bool is_accuracy = false;
  double value = 0;
};

struct Job {
  double epochs = 0;
  LastBatch last_batch = LastBatch::keep;
  std::optional<Price> price;
  std::optional<double> power;  // watts a GPU
  std::optional<Evaluation> evaluate;
  std::optional<Checkpoint> checkpoint;
  std::optional<Logging> log;
  std::optional<Failures> failures;
  std::optional<WarmUp> warmup;
  std::optional<Schedule> schedule;
  WorkerRule workers;
  LearningRateLaw learning_rate;
  SamplesLaw samples;
  // Seconds. rescale: at each change of workers; rebatch: at each change of the batch alone.
  double startup = 0, rescale = 0, rebatch = 0;
  std::shared_ptr<const Curve> curve;
  std::optional<Target> target;
  std::shared_ptr<const Scenario> baseline;  // none: the first phase held throughout
};

// Samples on their way from storage to a step, on each node.
struct InputPipeline {
  Rate read;               // storage to a node, in the first epoch; 0: no limit
  Rate cached;             // in later ones; 0: as in the first
  Bytes sample;            // stored size of one
  double decode = 0;       // seconds of one core a sample
  int workers = 1;         // cores that decode, a node
  int prefetch = 2;        // batches made ready ahead; 0: none, reading and training alternate
  bool to_device = false;  // the copy of a batch to the device runs beside the step before
};

struct HostDescription {
  bool one_process = false;       // with `threads` that launch for all GPUs of a node
  bool process_a_worker = false;  // neither: one process with a thread for each GPU
  int threads = 1;                // of a process that launch
  int cores = 0;                  // of a node; 0: as many as are wanted
  bool shared = false;            // all nodes are made of one machine
};

}  // namespace foretrain
