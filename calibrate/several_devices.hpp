// What needs two devices or more of this process: collectives, interference, data-parallel steps.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "calibrate/collective_suite.hpp"
#include "calibrate/session.hpp"
#include "sim/input/scenario.hpp"
#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

struct DeviceContext {
  device::Backend& backend;
  Clock& clock;
  const std::atomic<bool>* stop = nullptr;
};

// A thread a device.
void measure_local_collectives(DeviceContext& context, int gpus, const std::string& network,
                               const CollectiveOptions& options, const SuiteHooks& hooks);

struct InterferenceRequest {
  const Model& model;
  std::int64_t batch = 1;
  Precision precision = Precision::fp32;
  std::uint64_t seed = 1;
  int gpus = 2;
  double backward = 0;  // seconds on the device, as measured in context
  std::vector<std::int64_t> sizes = {std::int64_t{64} << 20};  // empty: whole steps alone
  double seconds = 4;
};

struct InterferenceRun {
  std::vector<InterferenceEntry> entries;  // a size each
  OverlapEntry overlap;                    // data-parallel steps with DistributedDataParallel's buckets
};

struct TrainedSteps {
  std::vector<double> seconds;        // single steps of this rank
  std::vector<std::int64_t> buckets;  // bytes; empty without communication
};

// Steps as `run` issues them (execute/trainer.hpp), with gradients exchanged or not, after ten steps of
// warm-up. Ranks that meet in every bucket have one pace.
TrainedSteps trained_steps(Session& session, RankGroup& group, device::Program& program,
                           device::Communicator* communicator, const Model& model, StrategyKind kind,
                           int steps);

InterferenceRun measure_interference_on(DeviceContext& context, const InterferenceRequest& request);

}  // namespace foretrain::calibrate
