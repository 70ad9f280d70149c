// Collectives: ranks that join, wait for the others, and what runs beside each other.
#include <algorithm>

#include "sim/training/replay_engine.hpp"

namespace foretrain {

// Its state up to `here`, from when on another slowdown holds.
void ReplayEngine::advance(Instance& instance, Time here) {
  const double passed = static_cast<double>((here - instance.updated).count());
  instance.remaining = std::max(0.0, instance.remaining - passed / instance.slowdown);
  instance.updated = here;
  instance.slowdown = slowdown_of(instance);
}

void ReplayEngine::update_slowdown(int id, Instance& instance, Time here) {
  if (slowdown_of(instance) == instance.slowdown) return;
  advance(instance, here);
  schedule_collective_end(id, instance);
}

// What runs has changed: all that run find anew what they leave each other.
void ReplayEngine::share() {
  if (!input_.sharing) return;
  std::vector<RunningCollective> all;
  for (const int id : running_) {
    const Instance& instance = instance_of(id);
    all.push_back({instance.group, instance.operation});
  }
  const std::vector<double> factors = input_.sharing(all);
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Instance& instance = instance_of(running_[i]);
    instance.sharing = factors[i];
    update_slowdown(running_[i], instance, queues_[0].now());
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
  auto [found, is_new] = id_of_.try_emplace(key, -1);
  if (is_new) found->second = new_instance(op.group);
  const int id = found->second;
  Instance& instance = instance_of(id);
  rank.joined_last = id;
  rank.place = static_cast<int>(instance.members.size());
  rank.waiting = true;
  instance.members.emplace_back(static_cast<int>(c), issued);
  if (rank.streams[communication].ended == now(c)) instance.after_pause = false;
  instance.arrivals.push_back(now(c));
  if (instance.members.size() < instance.expected) return;
  id_of_.erase(key);
  instance.operation = &op;
  instance.timing = input_.timer(graph_.groups[static_cast<std::size_t>(op.group)], op);
  const Time wait = instance.after_pause ? instance.timing.wait : Time();
  const Time pause = instance.after_pause ? instance.timing.start : Time();
  instance.start = instance.updated =
      *std::max_element(instance.arrivals.begin(), instance.arrivals.end()) + wait;
  instance.remaining =
      static_cast<double>(std::max<std::int64_t>(0, (instance.timing.alone + pause).count()));
  if (own_clocks_) {
    begin_apart(instance);
  } else if (instance.start > queues_[0].now()) {
    schedule(0, instance.start, EventKind::collective_start, 0, id, 0);
  } else {
    begin_together(id, instance);
  }
}

// One that has ended lends its room. Its version goes on, so that no event of its past is taken for one of
// now.
int ReplayEngine::new_instance(int group) {
  if (spare_.empty()) {
    spare_.push_back(static_cast<int>(instances_.size()));
    instances_.emplace_back();
  }
  const int id = spare_.back();
  spare_.pop_back();
  Instance& last = instance_of(id);
  Instance fresh;
  fresh.members = std::move(last.members);
  fresh.arrivals = std::move(last.arrivals);
  fresh.changes = std::move(last.changes);
  fresh.members.clear();
  fresh.arrivals.clear();
  fresh.changes.clear();
  fresh.version = last.version;
  fresh.group = group;
  fresh.expected = members_of_group_[static_cast<std::size_t>(group)].size();
  last = std::move(fresh);
  return id;
}

void ReplayEngine::begin_apart(Instance& instance) {
  instance.running = instance.members.size();
  if (instance.timing.collective_slowdown != 1 && instance.remaining > 0) return begin_slowed(instance);
  const Time end = instance.start + rounded_work(instance.remaining);
  for (const auto& [member, unused] : instance.members) {
    const auto m = static_cast<std::size_t>(member);
    ranks_[m].waiting = false;
    if (end > instance.start) schedule(m, instance.start, EventKind::collective_start, 0, member, 0);
    schedule(m, end, EventKind::collective_end, 0, member, 0);
    ready_.push_back(m);
  }
}

// It takes its time alone at least.
void ReplayEngine::begin_slowed(Instance& instance) {
  const double least = std::min(1.0, instance.timing.collective_slowdown);
  instance.bound = {instance.start + Time(static_cast<std::int64_t>(instance.remaining * least)),
                    after_kernels};
  for (const auto& [member, unused] : instance.members) {
    const auto m = static_cast<std::size_t>(member);
    ranks_[m].waiting = false;
    ranks_[m].instance = &instance;
    ranks_[m].bound = instance.bound;
    schedule(m, instance.start, EventKind::collective_start, 0, member, 0);
    ready_.push_back(m);
  }
}

// All members have reached the bound.
void ReplayEngine::go_on(Instance& instance) {
  auto& changes = instance.changes;
  std::stable_sort(changes.begin(), changes.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [time, change] : changes) {
    instance.computing += change;
    if (slowdown_of(instance) != instance.slowdown) advance(instance, time);
  }
  changes.clear();
  // It ends as things are now, unless something happens before.
  const Time end = instance.updated + rounded_work(instance.remaining * instance.slowdown);
  Bound next;
  for (const auto& [member, unused] : instance.members) {
    const auto& queue = queues_[static_cast<std::size_t>(member)];
    if (queue.begins_before(next.time, next.priority)) next = {queue.first_time(), queue.first_priority()};
  }
  if (end < next.time || (end == next.time && next.priority >= after_kernels)) return settle(instance, end);
  // What is left then takes its time alone at least; or the next event is let pass.
  const double passed = static_cast<double>((instance.bound.time - instance.updated).count());
  const double left = std::max(0.0, instance.remaining - passed / instance.slowdown) *
                      std::min(1.0, instance.timing.collective_slowdown);
  const Time least =
      instance.bound.time + Time(std::max<std::int64_t>(0, static_cast<std::int64_t>(left) - 1));
  instance.bound = least > next.time
                       ? Bound{least, after_kernels}
                       : Bound{next.time, next.priority < after_kernels ? after_kernels : after_all};
  instance.reached = 0;
  for (const auto& [member, unused] : instance.members) {
    const auto m = static_cast<std::size_t>(member);
    ranks_[m].bound = instance.bound;
    ranks_[m].at_bound = false;
    ready_.push_back(m);
  }
}

void ReplayEngine::settle(Instance& instance, Time end) {
  for (const auto& [member, unused] : instance.members) {
    const auto m = static_cast<std::size_t>(member);
    ranks_[m].bound = {};
    ranks_[m].at_bound = false;
    schedule(m, end, EventKind::collective_end, 0, member, 0);
    ready_.push_back(m);
  }
}

void ReplayEngine::begin_together(int id, Instance& instance) {
  for (const auto& [member, unused] : instance.members) {
    const auto m = static_cast<std::size_t>(member);
    ranks_[m].waiting = false;
    ranks_[m].collective = id;
    ranks_[m].instance = &instance;
    ranks_[m].counted = ranks_[m].streams[compute].busy;
    if (ranks_[m].counted) ++instance.computing;
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
  ranks_[c].instance = nullptr;
  ranks_[c].counted = false;
  set_slowdown(c, 1);
  finish(c, communication, instance.members[place].second, instance.arrivals[place], end,
         end - instance.start, true, instance.start);
}

void ReplayEngine::leave(std::size_t c) {
  const int id = ranks_[c].joined_last;
  Instance& instance = instance_of(id);
  const ReplayStep& op = op_of(instance.members[static_cast<std::size_t>(ranks_[c].place)]);
  release(instance, static_cast<std::size_t>(ranks_[c].place), now(c));
  if (--instance.running == 0) spare_.push_back(id);
  after_end(c, communication, op);
}

void ReplayEngine::end_collective(int id) {
  const Instance& instance = instance_of(id);
  std::erase(running_, id);
  share();
  for (std::size_t i = 0; i < instance.members.size(); ++i) release(instance, i, queues_[0].now());
  for (const auto& member : instance.members)
    after_end(static_cast<std::size_t>(member.first), communication, op_of(member));
  spare_.push_back(id);
}

}  // namespace foretrain
