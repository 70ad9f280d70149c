// One run of calibration on the local devices: operators of a model in context, whole steps, launch costs,
// copies, collectives, interference, noise.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/checks.hpp"
#include "calibrate/clock.hpp"
#include "calibrate/launcher.hpp"
#include "calibrate/rank_group.hpp"
#include "device/backend.hpp"
#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

struct Request {
  std::shared_ptr<const Model> model;  // null: collectives alone
  std::vector<std::int64_t> batches;
  std::vector<Precision> precisions;
  int gpus = 0;              // local devices to use, 0: all
  bool collectives = false;  // also beside a model
  std::vector<std::shared_ptr<const Model>>
      bucket_models;  // whose gradient buckets are sizes of collectives too
  std::int64_t largest_collective = std::int64_t{1} << 30;  // bytes
  std::string network;  // names what joins the nodes: "ethernet 10 Gbit/s tcp"
  double seconds = 0;   // of wall clock; 0: default_seconds()
  std::uint64_t seed = 1;
  std::string profile_name;
  std::string command;
};

struct Hooks {
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const std::string&)> progress;
  // A part is finished and in the profile: a good moment to save it.
  std::function<void(const Profile&)> finished;
};

struct Calibration {
  Profile profile;  // of one run
  std::vector<CheckRow> checks;
};

// Budget by default: 2 s, 6 s a batch and precision, on several GPUs 8 s a precision for interference, and
// with collectives 8 s and a second a GPU.
double default_seconds(const Request& request, int gpus);

// Error (unavailable) where the backend has no device, or fewer than asked for; of a model that does not fit,
// the batch is left out with a warning unless none fits. Where hooks.stop is set, what is finished is
// returned and marked incomplete.
Calibration calibrate(device::Backend& backend, Clock& clock, const Request& request, const Hooks& hooks);

// Over several processes, one a GPU: collectives, and with a model what they and its passes cost each other;
// `group` joins the processes. All ranks return the same run, rank 0's is the one to keep.
Calibration calibrate_across_processes(device::Backend& backend, Clock& clock, const Request& request,
                                       const Hooks& hooks, RankGroup& group, const LaunchedRank& launched);

}  // namespace foretrain::calibrate
