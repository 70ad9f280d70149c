#include "sim/training/step_simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

#include "sim/base/quantile.hpp"
#include "sim/input/job.hpp"
#include "sim/training/collective_start.hpp"
#include "sim/training/gpu_types.hpp"
#include "sim/training/gradient_copies.hpp"
#include "sim/training/input_copy.hpp"
#include "sim/training/noise.hpp"

namespace foretrain {
namespace {

// Host time of one collective's launch where the profile has none: an NCCL call and two events (assumed).
constexpr double assumed_collective_host = 15e-6;
constexpr int most_steps = 24;
constexpr std::size_t most_recorded_classes = 256;
constexpr std::size_t many_speeds = 24;
constexpr std::size_t few_speeds = 12;  // of each program

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

using Alike = std::map<std::pair<double, int>, std::vector<std::size_t>>;  // ranks by speed and program

Alike standing_for(const Alike& all) {
  std::map<int, std::vector<double>> speeds;  // of a program
  for (const auto& [key, ranks] : all) speeds[key.second].push_back(key.first);
  Alike out;
  for (const auto& [key, ranks] : all) {
    const std::vector<double>& own = speeds[key.second];
    const auto place =
        static_cast<std::size_t>(std::lower_bound(own.begin(), own.end(), key.first) - own.begin());
    // The last speed stands for itself; the others are cut into equal lots, each at its slowest.
    const std::size_t others = own.size() - 1, lots = std::min(others, few_speeds - 1);
    std::size_t stands = place;
    if (place < others) {
      const std::size_t lot = place * lots / others;
      stands = ((lot + 1) * others + lots - 1) / lots - 1;
    }
    std::vector<std::size_t>& lot = out[{own[stands], key.second}];
    lot.insert(lot.end(), ranks.begin(), ranks.end());
  }
  return out;
}

// Puts the class whose kernels take longest behind the others.
void slowest_last(ReplayInput& input) {
  std::size_t slowest = 0;
  double most = -1;
  for (std::size_t c = 0; c < input.classes.size(); ++c) {
    Time sum;
    for (const Operation& operation :
         input.graph->programs[static_cast<std::size_t>(input.classes[c].program)].operations) {
      if (operation.stream == StreamId::compute) sum = sum + operation.device;
    }
    const double work = sum.in_seconds() * input.classes[c].compute_factor;
    if (work < most) continue;
    most = work;
    slowest = c;
  }
  const auto last = static_cast<int>(input.classes.size()) - 1, other = static_cast<int>(slowest);
  if (last == other) return;
  std::swap(input.classes[slowest], input.classes.back());
  for (int& each : input.class_of_rank) each = each == last ? other : each == other ? last : each;
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
                 : *shared_step_times(scenario.model, scenario.profile, scenario.precision, micro_batch,
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
    times_ = step_times(*model, *scenario.step_times, micro_batch);
  }
  warnings_ = times_.warnings;

  // What a step of several workers has besides.
  StepTimes issued = times_;
  if (profile_ && kind == StrategyKind::ddp && workers_ > 1)
    add_gradient_copies(issued, *model, *profile_, scenario.precision);
  StrategyInput strategy;
  strategy.times = &issued;
  strategy.workers = workers_;
  strategy.servers = std::min(scenario.strategy.servers, workers_);
  strategy.accumulation = accumulation;
  strategy.collective_host = Time::seconds(host);
  strategy.event_wait = event_wait_;
  if (kind != StrategyKind::independent) {
    buckets_ = fuse(*model, scenario.strategy.fusion, gradients_, gradient_order(times_));
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
    network_ = std::make_shared<CollectiveModel>(scenario.cluster.topology, profile_.get());
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
                                       operation.bytes.count(), nodes_, workers_);
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

CollectiveSharing StepSimulation::sharing_of(const std::vector<Uses>& jobs) const {
  using Key = std::pair<std::size_t, std::size_t>;  // owner, collective
  auto busy = std::make_shared<std::map<Key, std::vector<LinkBusy>>>();
  auto known = std::make_shared<std::map<std::vector<Key>, std::vector<double>>>();
  return [this, &jobs, busy, known](std::span<const RunningCollective> running) {
    if (running.size() < 2) return std::vector<double>(running.size(), 1.0);
    std::vector<Key> keys;
    for (const RunningCollective& each : running) {
      const std::size_t owner = owner_[static_cast<std::size_t>(each.group)];
      const Key key{owner, jobs[owner].job->use_of(*each.operation, first_group_[owner])};
      keys.push_back(key);
      if (busy->contains(key)) continue;
      const CollectiveUse& use = (*jobs[owner].uses)[key.second];
      const auto& group = jobs[owner].job->graph_.groups[static_cast<std::size_t>(use.group)];
      (*busy)[key] = jobs[owner].network->busy(use.kind, use.bytes, group.ranks, use.cost);
    }
    const auto [found, is_new] = known->try_emplace(keys);
    if (is_new) {
      std::vector<const std::vector<LinkBusy>*> loads;
      for (const Key& key : keys) loads.push_back(&busy->at(key));
      for (const double progress : progress_of(loads)) found->second.push_back(1 / progress);
    }
    return found->second;
  };
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

double StepSimulation::launches() const {
  double sum = 0;
  for (const Operation& operation : graph_.programs.at(0).operations) sum += operation.launches;
  return sum;
}

// Ranks of one program and one speed are alike. The slowest class stands last. Where few stand for all, each
// rank counts as the next slower of a few speeds, the slowest of them its own.
ReplayInput StepSimulation::classes(bool plain, bool few) const {
  if (few && few_) {
    ReplayInput known = *few_;
    known.graph = &graph_;
    return known;
  }
  ReplayInput input = plain ? plain_replay(graph_) : symmetric_replay(graph_);
  if (compute_factors_.empty()) {
    if (!other_times_.empty()) slowest_last(input);
    return input;
  }
  const std::vector<RankClass> programs = std::move(input.classes);
  input.classes.clear();
  std::map<std::pair<double, int>, std::vector<std::size_t>> alike;
  for (std::size_t rank = 0; rank < input.class_of_rank.size(); ++rank) {
    const double factor =
        rank < compute_factors_.size() ? compute_factors_[rank] : 1;  // servers are no workers
    alike[{factor, input.class_of_rank[rank]}].push_back(rank);
  }
  if (few) alike = standing_for(alike);
  for (const auto& [key, ranks] : alike) {
    const RankClass& like = programs[static_cast<std::size_t>(key.second)];
    for (const std::size_t rank : ranks) input.class_of_rank[rank] = static_cast<int>(input.classes.size());
    input.classes.push_back({like.program, static_cast<std::int64_t>(ranks.size()), key.first, 1});
  }
  if (!other_times_.empty()) slowest_last(input);
  if (few) few_ = input;
  return input;
}

StepOutcome StepSimulation::run(const StepFactors& factors) const {
  StepOutcome out = outcome(factors, true);
  out.use = step_use(out.input, out.replay, out.replay.slowest);
  return out;
}

double StepSimulation::seconds(const StepFactors& factors) const {
  return outcome(factors, false).seconds;
}

// Of ranks that run one program at many speeds the slowest is behind the others all the time: it begins every
// collective and ends the step. Others count where they compute beside a collective while it does not. So a
// few speeds stand for all, if a replay of all of them bears it out.
StepOutcome StepSimulation::outcome(const StepFactors& factors, bool keeps_slices) const {
  if (factors.plain || !has_many_speeds_) return replayed(factors, keeps_slices, false);
  if (few_suffice_) return replayed(factors, keeps_slices, *few_suffice_);
  StepOutcome all = replayed(factors, keeps_slices, false);
  const double few = replayed(factors, false, true).seconds;
  constexpr double rounding = 1e-6;
  few_suffice_ = std::abs(few / all.seconds - 1) <= rounding;
  return all;
}

StepOutcome StepSimulation::replayed(const StepFactors& factors, bool keeps_slices, bool few) const {
  StepOutcome out;
  out.input = classes(factors.plain, few);
  ReplayInput& input = out.input;
  const double slowest = std::max(factors.slowest_device, factors.slowest_host);
  const bool are_alike = input.classes.size() == 1 || !compute_factors_.empty() || !other_times_.empty();
  if (slowest > 1 && are_alike && input.classes.back().count > 1) {
    // One rank of the (slowest) class stands apart: its place does not matter, since all of them meet in
    // every collective.
    const auto apart = static_cast<int>(input.classes.size());
    input.classes.push_back(input.classes.back());
    input.classes[input.classes.size() - 2].count -= 1;
    input.classes.back().count = 1;
    *std::find(input.class_of_rank.rbegin(), input.class_of_rank.rend(), apart - 1) = apart;
  }
  for (RankClass& each : input.classes) {
    each.compute_factor *= factors.device;
    each.host_factor = factors.host;
  }
  input.classes.back().compute_factor *= factors.slowest_device;
  input.classes.back().host_factor *= factors.slowest_host;
  input.launch_latency = launch_latency_;
  input.queue_depth = queue_depth_;
  const bool is_alone = others_.empty() || factors.plain;
  if (!is_alone) add_others(input);
  // Collectives of ours and of others, on the wires that are asked for.
  std::vector<Uses> jobs{{this, &collectives_, network_}};
  if (!is_alone) {
    for (const auto& other : others_) jobs.push_back({other.get(), &other->collectives_, other->network_});
  }
  std::deque<std::vector<CollectiveUse>> changed;
  if (factors.wires != WireFactors{}) {
    for (Uses& each : jobs) {
      if (each.uses->empty()) continue;
      each.uses = &changed.emplace_back(each.job->collectives_on(factors.wires, factors.wires_by_ratio));
      each.network = std::make_shared<const CollectiveModel>(each.network->with(factors.wires));
    }
  }
  const ProcessGroup* const groups = input.graph->groups.data();
  input.timer = [this, &factors, &jobs, is_alone, groups](const ProcessGroup& group,
                                                          const Operation& operation) {
    const std::size_t owner = is_alone ? 0 : owner_[static_cast<std::size_t>(&group - groups)];
    const CollectiveUse& use =
        (*jobs[owner].uses)[jobs[owner].job->use_of(operation, is_alone ? 0 : first_group_[owner])];
    CollectiveTiming timing;
    const double factor = owner == 0 ? factors.communication : 1;
    timing.alone = use.cost.time * factor;
    timing.start = use.start * factor;
    if (owner > 0 || factors.interference) {
      const double scale = owner == 0 ? factors.compute_interference : 1;
      timing.compute_slowdown = 1 + (use.beside.compute - 1) * scale;
      timing.collective_slowdown = use.beside.collective;
    }
    return timing;
  };
  if (!is_alone) input.sharing = sharing_of(jobs);
  // With many classes only the slices of the slowest are kept: most likely that of the highest factor.
  input.keeps_slices = keeps_slices;
  if (keeps_slices && input.classes.size() > most_recorded_classes) {
    const auto own = static_cast<std::ptrdiff_t>(is_alone ? input.classes.size() : input.own_classes);
    const auto slowest_class = std::max_element(
        input.classes.begin(), input.classes.begin() + own,
        [](const RankClass& a, const RankClass& b) { return a.compute_factor < b.compute_factor; });
    input.recorded_class = static_cast<int>(slowest_class - input.classes.begin());
  }
  for (input.steps = is_alone ? 4 : most_steps;; input.steps *= 2) {
    out.replay = replay(input);
    *events_ += out.replay.events;
    if (input.recorded_class >= 0 && input.recorded_class != out.replay.slowest) {
      input.recorded_class = out.replay.slowest;
      out.replay = replay(input);
      *events_ += out.replay.events;
    }
    if (out.replay.steady || input.steps * 2 > most_steps) break;
  }
  out.seconds = out.replay.classes[static_cast<std::size_t>(out.replay.slowest)].duration().in_seconds();
  input.timer = nullptr;
  input.sharing = nullptr;
  return out;
}

void StepSimulation::fill(Timeline& timeline, const StepOutcome& outcome) const {
  const ReplayInput& input = outcome.input;
  const int last = outcome.replay.reported;
  std::vector<std::vector<int>> ranks_of_class(input.classes.size());
  for (std::size_t rank = 0; rank < input.class_of_rank.size(); ++rank) {
    std::vector<int>& alike = ranks_of_class[static_cast<std::size_t>(input.class_of_rank[rank])];
    if (rank < most_traced_ranks || alike.empty()) alike.push_back(static_cast<int>(rank));
  }
  Time zero = Time::max();
  for (const ReplaySlice& slice : outcome.replay.slices) {
    if (slice.step == last) zero = std::min(zero, slice.start);
  }
  for (const ReplaySlice& slice : outcome.replay.slices) {
    if (slice.step != last || slice.end <= slice.start) continue;
    const auto c = static_cast<std::size_t>(slice.rank_class);
    const Operation& operation = graph_.programs[static_cast<std::size_t>(input.classes[c].program)]
                                     .operations[static_cast<std::size_t>(slice.operation)];
    for (int rank : ranks_of_class[c]) {
      Slice shown;
      shown.rank = rank;
      shown.track = slice.track;
      shown.name = slice.waiting ? "wait for all: " + operation.name : operation.name;
      shown.category = slice.track == Track::host ? "launch"
                       : slice.waiting            ? "waiting"
                                                  : name_of(operation.phase);
      shown.start = slice.start - zero;
      shown.duration = slice.end - slice.start;
      if (operation.group >= 0) {
        const CollectiveCost& cost = collectives_[use_of(operation, 0)].cost;
        shown.arguments = {{"bytes", fmt::format("{}", operation.bytes.count())},
                           {"algorithm", cost.algorithm},
                           {"protocol", cost.protocol}};
      } else {
        shown.arguments = {{"launches", fmt::format("{}", operation.launches)}};
      }
      timeline.slices.push_back(std::move(shown));
    }
  }
}

}  // namespace foretrain
