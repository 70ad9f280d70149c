// Runs scenarios one after another on the workers of this process; devices and communicators stay open
// between them.
#pragma once

#include <map>
#include <memory>

#include "execute/local_workers.hpp"
#include "execute/rank_run.hpp"
#include "execute/rendezvous.hpp"

namespace foretrain {

struct RunCallbacks {
  const std::atomic<bool>* stop = nullptr;  // the user has had enough: what is finished is kept
  // Steps finished by the slowest local rank, warm-up included; every few milliseconds.
  std::function<void(std::int64_t steps)> progress;
  std::function<void(const std::string&)> give_up;  // does not return: ranks hang beyond recovery
};

struct RunOptions {
  RankOptions rank;
  std::optional<JobPlan> job;        // none: as many steps as rank.length says
  std::filesystem::path checkpoint;  // empty: none is written, and none read
  bool resume = false;               // from the checkpoint, where there is one
  double time_limit = 30;            // seconds without progress before a run is given up
  double monitor = 0.1;              // seconds between two samples of devices, process and network; 0: none
  bool monitor_cost = false;         // measure what sampling costs, after the counted steps
};

class RunSession {
 public:
  // Several processes of one run each have a session, and run the same scenarios in the same order. Throws
  // Error (input) where they cannot meet.
  RunSession(device::Backend& backend, const LaunchEnvironment& launch, const Environment& environment);
  ~RunSession();
  RunSession(const RunSession&) = delete;
  RunSession& operator=(const RunSession&) = delete;

  // Whether this process holds rank 0, which writes the record.
  bool is_first(const Scenario& scenario) const;
  // Throws Error (unavailable) where the scenario's cluster is not the one that is there.
  LocalWorkers local_workers(const Scenario& scenario) const;

  // Makes the communicators of a scenario, of every phase of its job, which run() would make when it needs
  // them. To be called for all scenarios before the first is run: on a device that has worked before its
  // communicator was made each kernel begins about 0.8 us later ever after (H200, NCCL 2.28;
  // docs/cuda-backend.md).
  void join_ahead(const Scenario& scenario, const JobPlan* job, const RunCallbacks& callbacks);

  // Trains, phase by phase where there is a job, and fills ranks, events, machine, parameters and the
  // description of the scenario into `record`, whose other members stay as they are. Where it throws, or was
  // stopped, `record.complete` is false and `ranks` holds the finished steps of the local ranks.
  void run(const Scenario& scenario, const RunOptions& options, const RunCallbacks& callbacks,
           RunRecord& record);

 private:
  struct Local {
    std::unique_ptr<device::Worker> worker;
    std::map<int, std::unique_ptr<device::Communicator>> communicators;  // by number of ranks
  };

  void open_workers(const LocalWorkers& local);
  void join(const LocalWorkers& local, const RunCallbacks& callbacks);
  // False where it was stopped. Appends what the ranks measured to the record.
  bool train(const Scenario& scenario, const RunOptions& options, const RunCallbacks& callbacks,
             RunRecord& record);
  bool run_job(const Scenario& scenario, RunOptions options, const RunCallbacks& callbacks,
               RunRecord& record);

  device::Backend& backend_;
  LaunchEnvironment launch_;
  Rendezvous rendezvous_;
  std::map<int, Local> locals_;  // by device
  int meetings_ = 0;
  bool broken_ = false;  // communicators were aborted, or left in the middle
};

// What a record says of its scenario: model, batch, workers, network, strategy, parameters.
void describe(const Scenario& scenario, RunRecord& record);

}  // namespace foretrain
