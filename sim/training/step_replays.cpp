// Replays of a prepared step under factors, and what becomes of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "sim/training/step_simulation.hpp"

namespace foretrain {
namespace {

constexpr int most_steps = 24;
constexpr std::size_t most_recorded_classes = 256;
constexpr std::size_t few_speeds = 12;  // of each program

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

// Of half of the ranks at least.
double typical_factor(const std::vector<RankClass>& classes) {
  std::map<double, std::int64_t> counts;
  std::int64_t all = 0;
  for (const RankClass& each : classes) {
    counts[each.compute_factor] += each.count;
    all += each.count;
  }
  std::int64_t below = 0;
  for (const auto& [factor, count] : counts) {
    below += count;
    if (2 * below >= all) return factor;
  }
  return 1;
}

}  // namespace

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

StepOutcome StepSimulation::run(const StepFactors& factors, Slices slices) const {
  StepOutcome out = outcome(factors, slices);
  out.use = step_use(out.input, out.replay, out.replay.slowest);
  known_seconds_.emplace_back(factors, out.seconds);
  return out;
}

double StepSimulation::seconds(const StepFactors& factors) const {
  const auto known = std::find_if(known_seconds_.begin(), known_seconds_.end(),
                                  [&](const auto& each) { return each.first == factors; });
  if (known != known_seconds_.end()) return known->second;
  const double seconds = outcome(factors, Slices::none).seconds;
  known_seconds_.emplace_back(factors, seconds);
  return seconds;
}

// Of ranks that run one program at many speeds the slowest is behind the others all the time: it begins every
// collective and ends the step. Others count where they compute beside a collective while it does not. So a
// few speeds stand for all, if a replay of all of them bears it out.
StepOutcome StepSimulation::outcome(const StepFactors& factors, Slices slices) const {
  if (factors.plain || !has_many_speeds_) return replayed(factors, slices, false);
  if (few_suffice_) return replayed(factors, slices, *few_suffice_);
  StepOutcome all = replayed(factors, slices, false);
  const double few = replayed(factors, Slices::none, true).seconds;
  constexpr double rounding = 1e-6;
  few_suffice_ = std::abs(few / all.seconds - 1) <= rounding;
  return all;
}

StepOutcome StepSimulation::replayed(const StepFactors& factors, Slices slices, bool few) const {
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
  const double most = factors.even ? typical_factor(input.classes) : 0;
  for (RankClass& each : input.classes) {
    if (factors.even) each.compute_factor = std::min(each.compute_factor, most);
    each.compute_factor *= factors.device;
    each.host_factor = factors.host * contention_.factor;
  }
  input.classes.back().compute_factor *= factors.slowest_device;
  input.classes.back().host_factor *= factors.slowest_host;
  input.launch_latency = launch_latency_;
  input.queue_depth = queue_depth_;
  const bool is_alone = others_.empty() || factors.plain;
  if (is_alone) {
    if (!programs_) programs_.emplace(graph_.programs.begin(), graph_.programs.end());
    input.programs = *programs_;
    input.host_times = &host_times_;
  }
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
      timing.wait = Time::seconds(use.beside.wait) * (owner == 0 ? factors.collective_wait : 1.0);
      timing.compute_slowdown = 1 + (use.beside.compute - 1) * scale;
      timing.collective_slowdown = use.beside.collective;
    }
    return timing;
  };
  if (!is_alone) input.sharing = sharing_of(jobs);
  // The slowest is most likely that of the highest factor.
  input.keeps_slices = slices != Slices::none;
  if (slices == Slices::slowest || (slices == Slices::all && input.classes.size() > most_recorded_classes)) {
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
