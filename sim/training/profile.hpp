// What calibration measured on one GPU type: times of operators in context, whole steps, collectives,
// interference, and the machine they come from. Written by calibrate/, stored as JSON by
// sim/input/profile_json, read by the simulator.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace foretrain {

enum class Precision { fp32, tf32, bf16, fp16 };
const char* name_of(Precision precision);

enum class Origin { measured, fitted, assumed };
const char* name_of(Origin origin);

// Median of repetitions in seconds. low and high bound the median (95 % by order statistics); spread is the
// interquartile range of single repetitions.
struct Sample {
  double median = 0;
  double low = 0, high = 0;
  double spread = 0;
  int repetitions = 0;
};
// Half the width of the median's bounds over the median; 1 where the median is not positive.
inline double relative_error(const Sample& sample) {
  return sample.median > 0 ? (sample.high - sample.low) / 2 / sample.median : 1;
}

// One direction of one operator: time on the device, time of the host to launch it, number of launches.
struct PassTiming {
  Sample device;
  Sample host;
  double launches = 0;
};

enum class Pass { forward, backward_data, backward_weights };
inline constexpr int pass_count = 3;

// An operator at one batch and precision, timed inside whole steps of `context` (or alone, and then it says
// so).
struct OperatorEntry {
  std::string key;  // operator_key() of sim/training/model.hpp
  std::string
      layer;  // in-context: the layer's name, since neighbours and caches matter; empty where timed alone
  std::string context;  // the model it was timed in; empty where timed alone
  Precision precision = Precision::fp32;
  std::int64_t batch = 0;
  std::int64_t sequence = 0;  // of a model that has one, as in the entries below
  PassTiming passes[pass_count];
  double workspace_bytes = 0;
};

// The whole step of one worker, without instruments, from a run of its own. Its times are for validation
// only, never used to predict.
struct StepEntry {
  std::string model;
  Precision precision = Precision::fp32;
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  Sample step;                 // host clock and device agree on it over many steps
  double p05 = 0, p95 = 0;     // of single steps
  double peak_bytes = 0;       // device memory at the peak, our allocations and libraries' workspace
  double workspace_bytes = 0;  // of libraries, and what layers share besides activations; 0: not known
  Sample host;                 // time of the host to issue one step with the device far behind
  double launches = 0;
};

// The optimizer's update of a whole model.
struct OptimizerEntry {
  std::string kind;   // "sgd", "sgd-momentum", "adam", ...
  std::string model;  // context
  Precision precision = Precision::fp32;
  double parameters = 0;
  PassTiming update;
};

// Work of a step that belongs to no layer and grows with the batch or the parameters: host-to-device copy of
// the batch, cast of weights to the compute precision, zeroing of gradients.
struct StepWorkEntry {
  std::string what;  // "input_copy", "cast_weights", "zero_gradients"
  std::string model;
  Precision precision = Precision::fp32;
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  PassTiming timing;
};

struct CollectiveEntry {
  std::string kind;  // all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all, send_recv
  int ranks = 0;
  int nodes = 1;
  std::string network;    // "nvlink", "pcie", or as named by --network ("ethernet 10 Gbit/s tcp")
  double line_rate = 0;   // bytes per second and direction of a node's network, 0 within a node
  std::string algorithm;  // "auto" (what NCCL picks), "ring", "tree"
  std::string protocol;   // "auto", "LL", "LL128", "Simple"
  std::string chosen_algorithm, chosen_protocol;  // for auto: what the library's log names, if it does
  int channels = 0;                               // of the choice, 0 where not known
  std::string element;                            // "fp32", "bf16", "fp16"
  std::int64_t bytes = 0;
  Sample time;         // one call of a chain of back-to-back calls
  Sample isolated;     // one call on idle devices, all ranks ready; repetitions 0 where not measured
  double host = 0;     // host time of one launch in seconds
  std::string source;  // name of the profile, where several are joined; not stored
};

// What one stream's work costs the other while both run. Factors are times over times alone.
struct InterferenceEntry {
  std::string model;
  Precision precision = Precision::fp32;
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  int ranks = 0;
  int nodes = 1;
  std::string network;         // between nodes, as of collectives
  double line_rate = 0;        // bytes per second and direction of a node's network, 0 within a node
  std::int64_t bytes = 0;      // size of the collectives that ran beside
  Sample compute_slowdown;     // backward pass while collectives run, over backward alone; unitless
  Sample collective_slowdown;  // collectives beside backward, over collectives alone; unitless
};

// Steps of data-parallel training on local GPUs, every bucket reduced beside the backward pass: what overlap
// costs where it happens. One batch, by itself; batches between are interpolated.
struct OverlapEntry {
  std::string model;
  Precision precision = Precision::fp32;
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  int ranks = 0;
  std::vector<std::int64_t> buckets;  // bytes, in order of readiness
  Sample step;                        // of one rank: all have the same pace
  Sample alone;  // the same steps without communication, all ranks at once: of the slowest
  Sample one;    // of one rank while the others rest, in turns with those; repetitions 0: not measured
  double p05 = 0, p95 = 0;  // of single steps
  // Factor on (compute_slowdown - 1) of the interference entries with which the simulated step is longer than
  // that of one worker as `step` is than `alone`; below 0: not fitted.
  double interference_scale = -1;
  // Seconds that each collective after a pause begins later than on idle devices, since ranks wait for each
  // other: where no scale makes the simulated step as long (it is 1 then).
  double collective_wait = 0;
  // Ranks were connected before their devices worked, as in a training; where not, the steps are slower than
  // a training's and their scale is told, not applied.
  bool connected_first = false;
};

struct LaunchCosts {
  Sample launch;        // host time of one empty kernel launch
  Sample latency;       // launch call to start on an idle device
  Sample gap;           // end of one kernel to start of the next in a full queue
  Sample event_record;  // host time
  Sample event_gap;     // device time that one event between two kernels adds
  Sample event_wait;    // one stream's start after another stream's event
  int queue_depth = 0;  // launches that the driver takes before the host blocks, 0 where not known
};

struct CopyEntry {
  std::string direction;  // host_to_device, device_to_host, device_to_device, peer
  std::int64_t bytes = 0;
  bool pinned = true;
  Sample time;
};

// Noise of the machine: relative deviation of single steps. Of a model at one batch, or, without a model, of
// everything that was run.
struct NoiseEntry {
  std::string what;  // "device", "host"
  std::string model;
  Precision precision = Precision::fp32;
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  double sigma = 0;                              // standard deviation of the logarithm
  double tail_probability = 0, tail_factor = 1;  // rare long ones
};

struct Machine {
  std::string identity;  // host_identity(): this machine and no other; empty where not known
  std::string gpu;       // "NVIDIA H200"
  std::string compute_capability;
  int gpus = 0;
  int multiprocessors = 0;
  double memory_bytes = 0;
  std::string driver, cuda_driver, cuda_runtime, cudnn, cublas, nccl;
  std::string processor;
  int cores = 0;
  bool virtual_machine = false;
  std::string kernel;
  std::string link;  // between local GPUs: "NV18", "PCIe", "" for one GPU
  bool nvls = false;
  std::map<std::string, std::string> environment;  // every NCCL_*, CUDA_* and CUDNN_* variable
  double clock_before_hz = 0, clock_after_hz = 0, clock_max_hz = 0;
  bool throttled = false;
  std::string throttle_reason;
  double temperature_before = 0, temperature_after = 0;  // degrees Celsius
};

// One run of `foretrain calibrate`.
struct CalibrationRun {
  std::string date;  // UTC, ISO 8601
  std::string command;
  std::string foretrain;  // version
  Machine machine;
  double seconds = 0;    // wall clock after libraries are loaded
  bool complete = true;  // false where it was interrupted: what is there is whole, the rest is missing
  std::vector<std::string> warnings;  // throttling, noise above the target, a budget that ran out
};

struct Profile {
  static constexpr const char* schema = "foretrain/profile/1";
  std::string name;    // "h200": one file a GPU type
  std::string device;  // backend: "cuda", "cpu", "reference"
  std::vector<CalibrationRun> runs;
  std::vector<OperatorEntry> operators;
  std::vector<StepEntry> steps;
  std::vector<OptimizerEntry> optimizers;
  std::vector<StepWorkEntry> step_work;
  std::vector<CollectiveEntry> collectives;
  std::vector<InterferenceEntry> interference;
  std::vector<OverlapEntry> overlaps;
  std::vector<LaunchCosts> launches;  // one a run
  std::vector<CopyEntry> copies;
  std::vector<NoiseEntry> noise;
};

// The second kind of profile: (batch, seconds) pairs of whole steps on one device, nothing else.
struct StepTimeProfile {
  struct Point {
    std::int64_t batch = 0;
    double seconds = 0;
    double spread = 0;  // standard deviation, 0 where not given
  };
  std::vector<Point> points;
  double backward_fraction = 2.0 / 3;  // of forward and backward together
  Origin backward_fraction_origin = Origin::assumed;
  double gradient_bytes = 0;  // where no model is named
  double launches = 0;        // of a step, where they were counted
  std::string source;
};

}  // namespace foretrain
