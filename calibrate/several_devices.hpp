// What needs two devices or more of this process: collectives, interference, data-parallel steps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/collective_suite.hpp"
#include "calibrate/session.hpp"
#include "calibrate/step_plan.hpp"
#include "sim/input/scenario.hpp"
#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

struct DeviceContext {
  device::Backend& backend;
  Clock& clock;
  const std::atomic<bool>* stop = nullptr;
};

// Devices 0 to gpus - 1 with a communicator among them, a worker each. Made before anything runs on any of
// them, and used for all steps with gradients exchanged: where a communicator is made on a device that has
// worked already, each kernel begins about 0.8 us later ever after, which a training that starts with all its
// workers does not know (docs/cuda-backend.md).
class JoinedDevices {
 public:
  JoinedDevices(DeviceContext& context, int gpus);
  ~JoinedDevices();
  JoinedDevices(const JoinedDevices&) = delete;
  JoinedDevices& operator=(const JoinedDevices&) = delete;

  int count() const { return static_cast<int>(members_.size()); }
  device::Worker& worker(int rank) { return *members_[static_cast<std::size_t>(rank)].worker; }
  device::Communicator& communicator(int rank) {
    return *members_[static_cast<std::size_t>(rank)].communicator;
  }

 private:
  struct Member {
    std::unique_ptr<device::Worker> worker;
    std::unique_ptr<device::Communicator> communicator;
  };
  Clock& clock_;
  std::vector<Member> members_;
};

// A thread a device.
void measure_local_collectives(DeviceContext& context, int gpus, const std::string& network,
                               const CollectiveOptions& options, const SuiteHooks& hooks);

// A collective of all gradients, in whole blocks of every rank.
std::int64_t interfering_bytes(const Model& model, int ranks);

struct InterferenceRequest {
  const Model& model;
  std::int64_t batch = 1;
  Precision precision = Precision::fp32;
  std::uint64_t seed = 1;
  double backward = 0;              // seconds on the device, as measured in context; 0: not known
  std::vector<std::int64_t> sizes;  // of collectives; empty: whole steps alone
  // In place of sizes: that of a collective which takes this part of a backward pass, 0 for none.
  double part_of_backward = 0;
  double seconds = 4;         // the same on all ranks: how often they meet follows from it
  bool shares_cores = false;  // workers share one host's cores: what they cost each other is measured
};

// What passes of the model and all-reduces cost each other, a size each, on a worker of the group.
std::vector<InterferenceEntry> interference_by_size(Session& session, RankGroup& group,
                                                    device::Communicator& communicator, StepPlan& plan,
                                                    const InterferenceRequest& request);

struct InterferenceRun {
  std::vector<InterferenceEntry> entries;  // a size each
  OverlapEntry overlap;                    // data-parallel steps with DistributedDataParallel's buckets
};

struct TrainedSteps {
  std::vector<double> seconds;        // single steps of this rank
  std::vector<std::int64_t> buckets;  // bytes; empty without communication
};

// Steps as `run` issues them (execute/trainer.hpp), with gradients exchanged or not, after `soak` seconds of
// them and `warm_up` more. Ranks that meet in every bucket have one pace.
TrainedSteps trained_steps(Session& session, RankGroup& group, device::Program& program,
                           device::Communicator* communicator, const Model& model, StrategyKind kind,
                           int steps, double soak = 0, int warm_up = 10);

InterferenceRun measure_interference_on(DeviceContext& context, JoinedDevices& devices,
                                        const InterferenceRequest& request);

}  // namespace foretrain::calibrate
