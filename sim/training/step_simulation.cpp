#include "sim/training/step_simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/base/quantile.hpp"
#include "sim/input/job.hpp"
#include "sim/training/collective_start.hpp"
#include "sim/training/crowding.hpp"
#include "sim/training/gpu_types.hpp"
#include "sim/training/gradient_copies.hpp"
#include "sim/training/input_copy.hpp"
#include "sim/training/noise.hpp"

namespace foretrain {
namespace {

// Host time of one collective's launch where the profile has none: an NCCL call and two events (assumed).
constexpr double assumed_collective_host = 15e-6;
constexpr std::size_t many_speeds = 24;

double collective_host(const Profile& profile) {
  std::vector<double> hosts;
  for (const CollectiveEntry& entry : profile.collectives) {
    if (entry.kind == "all_reduce" && entry.algorithm == "auto" && entry.host > 0)
      hosts.push_back(entry.host);
  }
  if (hosts.empty()) return assumed_collective_host;
  return median(std::move(hosts));
}

// Of the model at the nearest batch; where it has none, of everything that the profile's last run did.
double noise_of(const Profile& profile, const char* what, const std::string& model, Precision precision,
                std::int64_t batch) {
  double sigma = 0, least = -1;
  for (const NoiseEntry& entry : profile.noise) {
    if (entry.what != what) continue;
    if (entry.model.empty()) {
      if (least < 0) sigma = entry.sigma;
      continue;
    }
    if (entry.model != model || entry.precision != precision || entry.batch < 1) continue;
    const double distance = std::abs(std::log(static_cast<double>(entry.batch) / static_cast<double>(batch)));
    if (least >= 0 && distance >= least) continue;
    least = distance;
    sigma = entry.sigma;
  }
  return sigma;
}

// By the device's times: what else delays the pass moves all of it.
GradientOrder gradient_order(const StepTimes& times) {
  GradientOrder order;
  order.completing = times.gradient_ready;
  double end = 0;
  for (const StepItem& item : times.backward) order.item_end.push_back(end += item.device);
  return order;
}

// How many nodes the first workers stand on.
int nodes_of_first(const Topology& topology, int workers) {
  std::set<int> nodes;
  for (int rank = 0; rank < workers; ++rank) {
    const int vertex = topology.workers[static_cast<std::size_t>(rank)];
    nodes.insert(topology.vertices[static_cast<std::size_t>(vertex)].node);
  }
  return static_cast<int>(nodes.size());
}

}  // namespace

StepSimulation::StepSimulation(const Scenario& scenario, const StepChange& change,
                               std::shared_ptr<const CollectiveModel> network)
    : StepSimulation(scenario, change, std::move(network), nullptr) {}

StepSimulation::StepSimulation(const Scenario& scenario, const StepChange& change,
                               std::shared_ptr<const CollectiveModel> network, const StepSimulation* like)
    : workers_(change.workers > 0 ? change.workers
                                  : static_cast<int>(scenario.cluster.topology.workers.size())),
      batch_per_worker_(change.batch_per_worker.value_or(scenario.batch_per_worker)),
      network_(std::move(network)),
      profile_(scenario.profile),
      gradients_(change.gradients.value_or(scenario.strategy.gradients)),
      algorithm_(collective_algorithm(scenario.strategy.algorithm)),
      nodes_(change.workers > 0 ? nodes_of_first(scenario.cluster.topology, workers_)
                                : scenario.cluster.topology.nodes),
      line_rate_(scenario.cluster.topology.network.bandwidth.bytes_per_second()),
      compute_factors_(scenario.cluster.topology.compute_factors) {
  if (compute_factors_.size() > static_cast<std::size_t>(workers_)) {
    compute_factors_.resize(static_cast<std::size_t>(workers_));
  }
  if (scenario.profile && scenario.model) {
    const bool is_one_machine = scenario.host && scenario.host->shared;
    const int together = is_one_machine ? workers_ : (workers_ + nodes_ - 1) / std::max(1, nodes_);
    crowding_ = crowding_of(*scenario.profile, scenario.model->name, scenario.precision, together);
    if (crowding_.factor > 1) compute_factors_.resize(static_cast<std::size_t>(workers_), 1);
    for (double& factor : compute_factors_) factor *= crowding_.factor;
    // Processes wait as threads of one do: on two H200s steps took as long either way.
    contention_ = launch_contention(*scenario.profile, scenario.model->name, scenario.precision, together);
  }
  has_many_speeds_ = std::set(compute_factors_.begin(), compute_factors_.end()).size() > many_speeds;
  const int accumulation = change.accumulation > 0 ? change.accumulation : scenario.strategy.accumulation;
  const StrategyKind kind = change.strategy.value_or(scenario.strategy.kind);
  const Model* model = scenario.model.get();
  Model listed;
  double host = assumed_collective_host;
  const std::int64_t micro_batch = micro_batch_ = std::max<std::int64_t>(1, batch_per_worker_ / accumulation);
  if (scenario.profile) {
    times_ = like != nullptr && like->micro_batch_ == micro_batch
                 ? like->times_
                 : shared_step_times(scenario.model, scenario.profile, scenario.precision, micro_batch,
                                     scenario.optimizer);
    host = collective_host(*scenario.profile);
    if (!scenario.profile->launches.empty()) {
      const LaunchCosts& costs = scenario.profile->launches.back();
      launch_latency_ = Time::seconds(std::max(0.0, costs.latency.median));
      event_wait_ = Time::seconds(std::max(0.0, costs.event_wait.median));
      host += 2 * costs.event_record.median;
      if (costs.queue_depth > 0) queue_depth_ = costs.queue_depth;
    }
    device_noise_ = noise_of(*scenario.profile, "device", model->name, scenario.precision, micro_batch);
    host_noise_ = noise_of(*scenario.profile, "host", model->name, scenario.precision, micro_batch);
  } else {
    if (model == nullptr) {
      listed = parameters_of_size(scenario.step_times->gradient_bytes);
      model = &listed;
    }
    times_ = std::make_shared<const StepTimes>(step_times(*model, *scenario.step_times, micro_batch));
  }
  warnings_ = times_->warnings;

  // What a step of several workers has besides.
  StrategyInput strategy;
  strategy.times = times_.get();
  StepTimes with_copies;
  if (profile_ && kind == StrategyKind::ddp && workers_ > 1) {
    with_copies = *times_;
    add_gradient_copies(with_copies, *model, *profile_, scenario.precision);
    strategy.times = &with_copies;
  }
  strategy.workers = workers_;
  strategy.servers = std::min(scenario.strategy.servers, workers_);
  strategy.accumulation = accumulation;
  strategy.collective_host = Time::seconds(host);
  strategy.event_wait = event_wait_;
  strategy.queue_depth = queue_depth_;
  if (kind != StrategyKind::independent) {
    buckets_ = fuse(*model, scenario.strategy.fusion, gradients_, gradient_order(*times_));
    strategy.buckets = buckets_;
  }
  graph_ = build_step_graph(kind, strategy);
  if (scenario.gpu_types) add_gpu_types(scenario, kind, strategy, like);
  if (scenario.input && profile_ && model->is_graph()) {
    const double launch = profile_->launches.empty() ? 0 : profile_->launches.back().launch.median;
    if (const auto seconds = host_to_device(*profile_, batch_bytes(*model, batch_per_worker_))) {
      add_input_copy(graph_, Time::seconds(*seconds), Time::seconds(launch), scenario.input->to_device);
    }
  }

  const bool communicates =
      std::any_of(graph_.programs.begin(), graph_.programs.end(), [](const RankProgram& program) {
        return std::any_of(program.operations.begin(), program.operations.end(),
                           [](const Operation& operation) { return operation.group >= 0; });
      });
  if (network_ == nullptr && communicates) {
    network_ = std::make_shared<CollectiveModel>(scenario.cluster.topology, profile_);
  }
  for (const RankProgram& program : graph_.programs) {
    for (const Operation& operation : program.operations) {
      if (operation.group < 0) continue;
      const auto key = std::make_tuple(operation.group, operation.kind, operation.bytes.count());
      const auto [known, is_new] = use_of_.try_emplace(key, collectives_.size());
      if (!is_new && &program != &graph_.programs.front())
        continue;  // the same ones from another rank's side
      CollectiveUse use;
      if (!is_new) {
        use = collectives_[known->second];
      } else {
        use.kind = operation.kind;
        use.group = operation.group;
        use.bytes = operation.bytes;
        use.start = event_wait_;
        price(use, *network_, line_rate_, true);
        if (profile_) {
          use.beside = interference_of(*profile_, model->name, scenario.precision, micro_batch,
                                       operation.bytes.count(), {workers_, nodes_, line_rate_});
        }
      }
      use.name = operation.name;
      collectives_.push_back(std::move(use));
    }
  }
  join_others(scenario);
  if (scenario.profile && !collectives_.empty() && collectives_.front().beside.origin == Origin::assumed) {
    warnings_.push_back(fmt::format(
        "profile '{}' has no interference: kernels and collectives are taken to run side by side at "
        "no cost",
        scenario.profile->name));
  }
}

void StepSimulation::add_gpu_types(const Scenario& scenario, StrategyKind kind, StrategyInput strategy,
                                   const StepSimulation* like) {
  const GpuTypes& types = *scenario.gpu_types;
  if (like != nullptr && like->micro_batch_ == micro_batch_) other_times_ = like->other_times_;
  for (std::size_t type = other_times_.size(); type < types.profiles.size(); ++type) {
    other_times_.push_back(step_times(*scenario.model, *types.profiles[type], scenario.precision,
                                      micro_batch_, scenario.optimizer));
  }
  const std::vector<int> own = graph_.program_of_rank;
  for (std::size_t type = 0; type < types.profiles.size(); ++type) {
    strategy.times = &other_times_[type];
    const auto first = static_cast<int>(graph_.programs.size());
    for (RankProgram& program : build_step_graph(kind, strategy).programs)
      graph_.programs.push_back(std::move(program));
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      if (types.of(rank) == static_cast<int>(type) + 1) graph_.program_of_rank[rank] = first + own[rank];
    }
    for (const std::string& warning : other_times_[type].warnings) {
      if (std::find(warnings_.begin(), warnings_.end(), warning) == warnings_.end())
        warnings_.push_back(warning);
    }
  }
}

void StepSimulation::join_others(const Scenario& scenario) {
  if (scenario.others.empty() || collectives_.empty()) return;
  joint_ = graph_;
  owner_.assign(graph_.groups.size(), 0);
  first_group_ = first_program_ = {0};
  for (const auto& other : scenario.others) {
    others_.push_back(std::make_shared<const StepSimulation>(*other));
    const StepGraph& graph = others_.back()->graph_;
    const auto first_group = static_cast<int>(joint_.groups.size());
    const auto first_program = static_cast<int>(joint_.programs.size());
    const int first_rank = joint_.ranks();
    first_group_.push_back(first_group);
    first_program_.push_back(first_program);
    for (ProcessGroup group : graph.groups) {
      for (int& rank : group.ranks) rank += first_rank;
      joint_.groups.push_back(std::move(group));
      owner_.push_back(others_.size());
    }
    for (RankProgram program : graph.programs) {
      for (Operation& operation : program.operations) {
        if (operation.group >= 0) operation.group += first_group;
      }
      joint_.programs.push_back(std::move(program));
    }
    for (const int program : graph.program_of_rank) joint_.program_of_rank.push_back(first_program + program);
  }
}

// Ranks of other jobs follow ours.
void StepSimulation::add_others(ReplayInput& input) const {
  input.graph = &joint_;
  input.own_classes = input.classes.size();
  for (std::size_t other = 0; other < others_.size(); ++other) {
    const ReplayInput theirs = others_[other]->classes(false, false);
    const auto first_class = static_cast<int>(input.classes.size());
    for (RankClass each : theirs.classes) {
      each.program += first_program_[other + 1];
      input.classes.push_back(each);
    }
    for (const int each : theirs.class_of_rank) input.class_of_rank.push_back(first_class + each);
  }
}

StepSimulation StepSimulation::changed(const Scenario& scenario, const StepChange& change) const {
  StepSimulation out(scenario, change, network_, this);
  out.few_suffice_ = few_suffice_;
  out.events_ = events_;
  return out;
}

void StepSimulation::price(CollectiveUse& use, const CollectiveModel& network, double line_rate,
                           bool measured) const {
  CollectiveChoice choice;
  choice.measured = measured;
  if (use.kind == CollectiveKind::all_reduce) choice.algorithm = algorithm_;
  use.cost = network.cost(use.kind, use.bytes, gradients_,
                          graph_.groups[static_cast<std::size_t>(use.group)].ranks, choice);
  if (!profile_) return;
  use.start = Time::seconds(collective_start(*profile_, name_of(use.kind), use.bytes.count(), workers_,
                                             nodes_, line_rate, event_wait_.in_seconds()));
}

std::vector<CollectiveUse> StepSimulation::collectives_on(const WireFactors& wires, bool by_ratio) const {
  std::vector<CollectiveUse> out = collectives_;
  if (out.empty()) return out;
  const CollectiveModel network = network_->with(wires);
  for (CollectiveUse& use : out) {
    if (!by_ratio) {
      price(use, network, line_rate_ * wires.network, true);
      continue;
    }
    CollectiveUse here = use, there = use;
    price(here, *network_, line_rate_, false);
    price(there, network, line_rate_, false);
    if (here.cost.time > Time()) {
      use.cost.time = use.cost.time * (there.cost.time.in_seconds() / here.cost.time.in_seconds());
    }
  }
  return out;
}

StepFactors StepSimulation::at_quantile(double quantile) const {
  StepFactors factors;
  factors.slowest_device = slowest_factor(device_noise_, workers_, quantile);
  factors.slowest_host = slowest_factor(host_noise_, workers_, quantile);
  return factors;
}

std::size_t StepSimulation::use_of(const Operation& operation, int first_group) const {
  return use_of_.at({operation.group - first_group, operation.kind, operation.bytes.count()});
}

bool StepSimulation::ranks_wait() const {
  return std::any_of(collectives_.begin(), collectives_.end(),
                     [](const CollectiveUse& use) { return use.beside.wait > 0; });
}

double StepSimulation::launching() const {
  Time sum;
  for (const Operation& operation : graph_.programs.at(0).operations) sum += operation.host;
  return sum.in_seconds() * contention_.factor;
}

double StepSimulation::launches() const {
  double sum = 0;
  for (const Operation& operation : graph_.programs.at(0).operations) sum += operation.launches;
  return sum;
}

}  // namespace foretrain
