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
  std::int64_t batch = 0;
  int workers = 0;
  double step = 0;
  std::int64_t updates = 0;
  double time = 0;
};

struct JobPrediction {
  double time = 0;
  std::int64_t updates = 0;
  double epochs = 0;
  double samples = 0;
  double gpu_hours = 0;
  std::optional<double> cost;
  std::string currency;
  double training = 0, evaluation = 0, checkpoint = 0, startup = 0, rescale = 0;
  std::vector<JobPhase> phases;
};

struct Communication {
  double bytes_per_worker = 0;  // payload of the gradients, not of the wire
  int collectives = 0;
  double busy = 0, exposed = 0, overlap = 0;  // seconds, seconds, fraction hidden
};

struct GpuUse {
  double busy = 0, computing = 0, communicating = 0;  // fractions of the step
  double launches = 0;                                // a step
};

struct Result {
  static constexpr const char* schema = "foretrain/result/1";
  std::string scenario;
  std::string question;  // the first comment of the scenario's file: a heading
  std::uint64_t seed = 1;
  bool complete = true;
  std::vector<ResolvedInput> inputs;
  std::string model, profile, precision, strategy, topology;  // for headings
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
  GpuUse gpu;
  Memory memory;
  std::optional<JobPrediction> job;
  std::vector<std::string> warnings;
  std::vector<Extrapolation> extrapolated;
};

}  // namespace foretrain
