// A scenario after reading: every name resolved, every value checked, every default filled in and marked as
// such.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/units.hpp"
#include "sim/network/topology.hpp"
#include "sim/training/buckets.hpp"
#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

enum class StrategyKind { ddp, parameter_server, independent };
const char* name_of(StrategyKind kind);

struct Strategy {
  StrategyKind kind = StrategyKind::ddp;
  Fusion fusion;
  Precision gradients = Precision::fp32;
  int servers = 1;        // parameter_server: ranks among which the buckets are dealt out
  int accumulation = 1;   // micro-batches of a step
  std::string algorithm;  // of collectives: "ring", "tree"; empty: what the library picks
};

// Defined in sim/input/job.hpp and sim/input/observed.hpp, so that a new key of theirs recompiles little.
struct Job;
struct InputPipeline;
struct HostDescription;
struct Observed;
struct SequenceLengths;  // sim/input/sequence_lengths.hpp
struct GpuTypes;         // sim/training/gpu_types.hpp

struct Execution {
  bool deterministic = false;
  bool cuda_graph = false;
};

// One value the scenario rests on and where it came from.
struct ResolvedInput {
  std::string path;                 // "cluster.network.bandwidth"
  std::string value;                // as a person would write it
  Origin origin = Origin::assumed;  // given in a file or measured: measured; a default: assumed
  bool is_default = false;
};

struct Scenario {
  std::string name;  // the file's stem
  std::string file;
  std::string question;  // the first comment line of the file, empty where there is none

  std::shared_ptr<const Model>
      model;  // a graph or a list of parameters; null only beside a step-time profile
  std::shared_ptr<const Profile> profile;  // joined: later entries win
  std::vector<std::string> profile_names;
  std::shared_ptr<const StepTimeProfile> step_times;  // the second kind; exactly one of the two is set

  Precision precision = Precision::fp32;
  std::int64_t batch_per_worker = 0;  // exactly divided
  std::int64_t batch_global = 0;

  Cluster cluster;                            // sim/network/topology.hpp
  std::shared_ptr<const GpuTypes> gpu_types;  // null: all GPUs are as the profile's
  Strategy strategy;
  Optimizer optimizer;
  std::optional<std::int64_t> dataset_samples;
  std::shared_ptr<const Job> job;  // null where there is none, as the three below
  std::shared_ptr<const InputPipeline> input;
  std::shared_ptr<const HostDescription> host;
  std::shared_ptr<const Observed> observed;
  std::shared_ptr<const SequenceLengths> lengths;  // null: all samples are as long as the model's sequence
  Execution execution;
  // Other jobs on the same cluster, each with its own workers and without others. Their links are numbered
  // as ours.
  std::vector<std::shared_ptr<const Scenario>> others;

  std::vector<ResolvedInput> inputs;
  std::vector<std::string> warnings;  // hints that are no errors: implausible values
};

}  // namespace foretrain
