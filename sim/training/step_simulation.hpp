// One shape of step (batch, workers, cluster, strategy) prepared once and replayed under different factors:
// noise, uncertainty, what-ifs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/input/scenario.hpp"
#include "sim/network/collective_cost.hpp"
#include "sim/training/breakdown.hpp"
#include "sim/training/crowding.hpp"
#include "sim/training/host_speed.hpp"
#include "sim/training/interference.hpp"
#include "sim/training/replay.hpp"
#include "sim/training/replay_program.hpp"
#include "sim/training/strategies.hpp"

namespace foretrain {

// A step like the scenario's but for this, without a copy of its cluster.
struct StepChange {
  int workers = 0;  // only the first ones; 0: all
  std::optional<StrategyKind> strategy = std::nullopt;
  std::optional<std::int64_t> batch_per_worker = std::nullopt;
  std::optional<Precision> gradients = std::nullopt;
  int accumulation = 0;  // micro-batches of a step; 0: as before
};

// Factors on the prepared times; 1 changes nothing. slowest_* apply to one rank, on top.
struct StepFactors {
  double device = 1, host = 1, communication = 1;
  double slowest_device = 1, slowest_host = 1;
  bool interference = true;
  double compute_interference = 1;  // on what collectives cost the kernels beside them
  double collective_wait = 1;       // on how long ranks wait for each other before a collective
  bool plain = false;               // every rank a class of its own
  bool even = false;                // no worker computes slower than the typical one
  WireFactors wires;                // collectives as on such links; needs the scenario's topology alive
  // Times of collectives change as the constants of library and wires say, from what was predicted; else each
  // is predicted anew, by measurements where the profile has a network of that rate.
  bool wires_by_ratio = false;
  bool operator==(const StepFactors&) const = default;
};

struct CollectiveUse {
  std::string name;  // "all_reduce bucket 0"
  CollectiveKind kind = CollectiveKind::all_reduce;
  int group = 0;
  Bytes bytes;
  CollectiveCost cost;
  Time start;           // on top of the cost, after a pause
  Interference beside;  // kernels and the collective, while both run
};

// Whose slices a replay keeps.
enum class Slices : std::uint8_t { none, slowest, all };

struct StepOutcome {
  double seconds = 0;
  StepUse use;        // of the slowest rank
  ReplayInput input;  // refers to the simulation's graph
  ReplayResult replay;
};

class StepSimulation {
 public:
  // Throws Error (unavailable) where the profile lacks what the scenario needs.
  // `network` is that of another simulation of the same cluster and profile.
  explicit StepSimulation(const Scenario& scenario, const StepChange& change = {},
                          std::shared_ptr<const CollectiveModel> network = nullptr);
  // The same scenario's step but for the change, with what is known of its cluster already.
  StepSimulation changed(const Scenario& scenario, const StepChange& change) const;

  // Of all ranks the slices are kept only where they are asked for.
  StepOutcome run(const StepFactors& factors = {}, Slices slices = Slices::slowest) const;
  // The step alone, without what it was spent on; factors that were replayed before are not replayed again.
  double seconds(const StepFactors& factors) const;
  // Of the outcome's last step, with waiting and running as two slices; times start at zero. Of many ranks
  // the first, and one of each further kind.
  static constexpr std::size_t most_traced_ranks = 1024;
  void fill(Timeline& timeline, const StepOutcome& outcome) const;

  const StepTimes& times() const { return *times_; }
  // Of the other types of GPU.
  const std::vector<StepTimes>& other_times() const { return other_times_; }
  const StepGraph& graph() const { return graph_; }
  const LaunchContention& contention() const { return contention_; }
  const Crowding& crowding() const { return crowding_; }
  const std::vector<CollectiveUse>& collectives() const { return collectives_; }
  bool ranks_wait() const;  // for each other before some collective (Interference::wait)
  const std::vector<Bucket>& buckets() const { return buckets_; }
  int workers() const { return workers_; }
  const std::shared_ptr<const CollectiveModel>& network() const { return network_; }
  std::int64_t batch_global() const { return batch_per_worker_ * workers_; }
  // Of all replays so far, with those of changed() ones.
  std::uint64_t events() const { return *events_; }
  double launches() const;   // of a step of the first worker
  double launching() const;  // seconds that its host takes for them
  // The factors of the step that all but a share `quantile` of steps exceed, by the noise of the profile;
  // 0.5: median.
  StepFactors at_quantile(double quantile) const;
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  // `like` is of the same scenario; what it knows is taken over.
  StepSimulation(const Scenario& scenario, const StepChange& change,
                 std::shared_ptr<const CollectiveModel> network, const StepSimulation* like);
  StepOutcome outcome(const StepFactors& factors, Slices slices) const;
  // Groups of a graph that holds several jobs begin at first_group.
  std::size_t use_of(const Operation& operation, int first_group) const;
  StepOutcome replayed(const StepFactors& factors, Slices slices, bool few) const;
  ReplayInput classes(bool plain, bool few) const;
  // Cost and start of a collective as the model has it.
  void price(CollectiveUse& use, const CollectiveModel& network, double line_rate, bool measured) const;
  // Programs of the ranks on GPUs of other types: the same operations, each as long as there.
  void add_gpu_types(const Scenario& scenario, StrategyKind kind, StrategyInput strategy,
                     const StepSimulation* like);
  void join_others(const Scenario& scenario);
  // Steps of other jobs beside ours, and what their collectives and ours leave each other.
  struct Uses {
    const StepSimulation* job;
    const std::vector<CollectiveUse>* uses;
    std::shared_ptr<const CollectiveModel> network;
  };
  void add_others(ReplayInput& input) const;
  CollectiveSharing sharing_of(const std::vector<Uses>& jobs) const;
  std::vector<CollectiveUse> collectives_on(const WireFactors& wires, bool by_ratio) const;

  std::shared_ptr<const StepTimes> times_;
  std::vector<StepTimes> other_times_;  // of GPUs of other types, where there are some
  std::vector<Bucket> buckets_;
  StepGraph graph_;
  std::vector<CollectiveUse> collectives_;
  std::map<std::tuple<int, CollectiveKind, std::int64_t>, std::size_t>
      use_of_;  // by group, kind and bytes, into collectives_
  int workers_ = 1;
  std::int64_t batch_per_worker_ = 1;
  std::int64_t micro_batch_ = 1;  // of a worker
  std::shared_ptr<const CollectiveModel> network_;
  std::shared_ptr<const Profile> profile_;
  Precision gradients_ = Precision::fp32;
  std::optional<CollectiveAlgorithm> algorithm_;  // of all-reduces, where the scenario names one
  int nodes_ = 1;
  double line_rate_ = 0;                 // bytes per second of a NIC
  std::vector<double> compute_factors_;  // of the workers, where they differ
  Time launch_latency_, event_wait_;
  int queue_depth_ = 1024;
  Crowding crowding_;                         // of workers on the cores of one node
  LaunchContention contention_;               // of threads that launch in one process
  double device_noise_ = 0, host_noise_ = 0;  // standard deviations of the logarithm of a step's time
  std::vector<std::string> warnings_;
  std::shared_ptr<std::uint64_t> events_ = std::make_shared<std::uint64_t>(0);
  std::vector<std::shared_ptr<const StepSimulation>> others_;
  StepGraph joint_;                 // of all jobs, ours first; empty where we are alone
  std::vector<std::size_t> owner_;  // of a group of it: 0 ours, then others_ from 1
  std::vector<int> first_group_;    // of each owner
  std::vector<int> first_program_;
  bool has_many_speeds_ = false;
  // Found by the first replays.
  mutable std::vector<std::pair<StepFactors, double>> known_seconds_;
  mutable std::optional<std::vector<ReplayProgram>> programs_;  // of the graph
  mutable HostTimesOfPrograms host_times_;
  mutable std::optional<ReplayInput> few_;
  mutable std::optional<bool> few_suffice_;  // of the many speeds of the ranks
};

}  // namespace foretrain
