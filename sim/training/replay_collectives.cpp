// Collectives: ranks that join, wait for the others, and what runs beside each other.
#include <algorithm>

#include "sim/training/replay_engine.hpp"

namespace foretrain {

// A member's compute stream went busy or idle beside a running collective.
void ReplayEngine::set_computing(int id, int change) {
  if (own_clocks_) return;
  Instance& instance = instances_.at(id);
  instance.computing += change;
  update_slowdown(id, instance);
}

double ReplayEngine::slowdown_of(const Instance& instance) {
  return (instance.computing > 0 ? instance.timing.collective_slowdown : 1.0) * instance.sharing;
}

void ReplayEngine::update_slowdown(int id, Instance& instance) {
  const double slowdown = slowdown_of(instance);
  if (slowdown == instance.slowdown) return;
  const double passed = static_cast<double>((queues_[0].now() - instance.updated).count());
  instance.remaining = std::max(0.0, instance.remaining - passed / instance.slowdown);
  instance.updated = queues_[0].now();
  instance.slowdown = slowdown;
  schedule_collective_end(id, instance);
}

// What runs has changed: all that run find anew what they leave each other.
void ReplayEngine::share() {
  if (!input_.sharing) return;
  std::vector<RunningCollective> all;
  for (const int id : running_) {
    const Instance& instance = instances_.at(id);
    all.push_back({instance.group, instance.operation});
  }
  const std::vector<double> factors = input_.sharing(all);
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Instance& instance = instances_.at(running_[i]);
    instance.sharing = factors[i];
    update_slowdown(running_[i], instance);
  }
}

void ReplayEngine::schedule_collective_end(int id, Instance& instance) {
  const Time end = queues_[0].now() + rounded_work(instance.remaining * instance.slowdown);
  schedule(0, end, EventKind::collective_end, 0, id, ++instance.version);
}

void ReplayEngine::join(std::size_t c, const Issued& issued) {
  Rank& rank = ranks_[c];
  const Operation& op = rank.program->operation(issued.place);
  const int sequence = rank.joined[static_cast<std::size_t>(op.group)]++;
  const std::int64_t key =
      static_cast<std::int64_t>(sequence) * static_cast<std::int64_t>(graph_.groups.size()) + op.group;
  auto [found, is_new] = id_of_.try_emplace(key, next_id_);
  if (is_new) {
    Instance& fresh = instances_[next_id_++];
    fresh.group = op.group;
    fresh.expected = members_of_group_[static_cast<std::size_t>(op.group)].size();
    fresh.members.reserve(fresh.expected);
    fresh.arrivals.reserve(fresh.expected);
  }
  const int id = found->second;
  Instance& instance = instances_.at(id);
  rank.joined_last = id;
  rank.place = static_cast<int>(instance.members.size());
  rank.waiting = true;
  instance.members.emplace_back(static_cast<int>(c), issued);
  if (rank.streams[static_cast<int>(StreamId::communication)].ended == now(c)) instance.after_pause = false;
  instance.arrivals.push_back(now(c));
  if (instance.members.size() < instance.expected) return;
  id_of_.erase(key);
  instance.operation = &op;
  instance.timing = input_.timer(graph_.groups[static_cast<std::size_t>(op.group)], op);
  instance.start = instance.updated = *std::max_element(instance.arrivals.begin(), instance.arrivals.end());
  const Time pause = instance.after_pause ? instance.timing.start : Time();
  instance.remaining =
      static_cast<double>(std::max<std::int64_t>(0, (instance.timing.alone + pause).count()));
  if (own_clocks_) {
    begin_apart(instance);
  } else {
    begin_together(id, instance);
  }
}

void ReplayEngine::begin_apart(Instance& instance) {
  const Time end = instance.start + rounded_work(instance.remaining);
  instance.running = instance.members.size();
  for (const auto& [member, unused] : instance.members) {
    const auto m = static_cast<std::size_t>(member);
    ranks_[m].waiting = false;
    if (end > instance.start) schedule(m, instance.start, EventKind::collective_start, 0, member, 0);
    schedule(m, end, EventKind::collective_end, 0, member, 0);
    ready_.push_back(m);
  }
}

void ReplayEngine::begin_together(int id, Instance& instance) {
  for (const auto& [member, unused] : instance.members) {
    const auto m = static_cast<std::size_t>(member);
    ranks_[m].waiting = false;
    ranks_[m].collective = id;
    if (ranks_[m].streams[static_cast<int>(StreamId::compute)].busy) ++instance.computing;
    set_slowdown(m, instance.timing.compute_slowdown);
  }
  instance.slowdown = slowdown_of(instance);
  schedule_collective_end(id, instance);
  running_.push_back(id);
  share();
}

// A member's part of the end.
void ReplayEngine::release(const Instance& instance, std::size_t place, Time end) {
  const auto c = static_cast<std::size_t>(instance.members[place].first);
  ranks_[c].collective = -1;
  set_slowdown(c, 1);
  finish(c, static_cast<int>(StreamId::communication), instance.members[place].second,
         instance.arrivals[place], end, end - instance.start, true, instance.start);
}

void ReplayEngine::leave(std::size_t c) {
  const int id = ranks_[c].joined_last;
  Instance& instance = instances_.at(id);
  release(instance, static_cast<std::size_t>(ranks_[c].place), now(c));
  if (--instance.running == 0) instances_.erase(id);
  after_end(c);
}

void ReplayEngine::end_collective(int id) {
  const Instance instance = std::move(instances_.at(id));
  instances_.erase(id);
  std::erase(running_, id);
  share();
  for (std::size_t i = 0; i < instance.members.size(); ++i) release(instance, i, queues_[0].now());
  for (const auto& [member, unused] : instance.members) after_end(static_cast<std::size_t>(member));
}

}  // namespace foretrain
