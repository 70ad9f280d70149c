#include "sim/training/replay.hpp"

#include "sim/base/error.hpp"
#include "sim/training/replay_engine.hpp"

namespace foretrain {

ReplayEngine::ReplayEngine(const ReplayInput& input)
    : input_(input), graph_(*input.graph), own_clocks_(!input.sharing && input.own_classes == 0) {
  own_ = input_.own_classes > 0 ? input_.own_classes : input_.classes.size();
  ranks_.resize(input_.classes.size());
  queues_.resize(own_clocks_ ? ranks_.size() : 1);
  work_.resize(input_.classes.size());
  members_of_group_.resize(graph_.groups.size());
  for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
    std::vector<bool> takes_part(ranks_.size());
    for (int rank : graph_.groups[g].ranks) {
      takes_part[static_cast<std::size_t>(input_.class_of_rank.at(static_cast<std::size_t>(rank)))] = true;
    }
    for (std::size_t c = 0; c < ranks_.size(); ++c) {
      if (takes_part[c]) members_of_group_[g].push_back(static_cast<int>(c));
    }
  }
  std::span<const ReplayProgram> programs = input_.programs;
  if (programs.empty()) {
    for (const RankProgram& each : graph_.programs) made_.emplace_back(each);
    programs = made_;
  }
  HostTimesOfPrograms& host_times = input.host_times != nullptr ? *input.host_times : own_host_times_;
  for (std::size_t c = 0; c < ranks_.size(); ++c) {
    const RankClass& like = input_.classes[c];
    const auto program = static_cast<std::size_t>(like.program);
    ranks_[c].program = &programs[program];
    ranks_[c].host_times =
        &host_times.try_emplace({like.program, like.host_factor}, graph_.programs[program], like.host_factor)
             .first->second;
    ranks_[c].compute_factor = like.compute_factor;
    ranks_[c].issued.resize(graph_.programs[program].operations.size() * ring);
    ranks_[c].joined.assign(graph_.groups.size(), 0);
  }
}

ReplayResult ReplayEngine::run() {
  for (std::size_t c = 0; c < ranks_.size(); ++c) advance_host(c);
  if (own_clocks_) {
    run_apart();
  } else {
    // Other jobs go on for ever.
    while (!queues_[0].empty() && (own_ == ranks_.size() || finished_ < own_)) {
      handle(queues_[0].pop());
    }
  }
  return result();
}

void ReplayEngine::run_apart() {
  for (std::size_t c = 0; c < ranks_.size(); ++c) ready_.push_back(c);
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    const std::size_t c = ready_[i];
    Rank& rank = ranks_[c];
    EventQueue<Payload>& events = queues_[c];
    while (!rank.waiting && events.begins_before(rank.bound.time, rank.bound.priority)) {
      handle(events.pop());
    }
    if (rank.instance == nullptr || rank.waiting || rank.at_bound || rank.bound.time == Time::max()) continue;
    rank.at_bound = true;
    if (++rank.instance->reached == rank.instance->expected) go_on(*rank.instance);
  }
}

ReplayInput plain_replay(const StepGraph& graph) {
  ReplayInput input;
  input.graph = &graph;
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    input.classes.push_back({graph.program_of_rank[static_cast<std::size_t>(rank)], 1, 1, 1});
    input.class_of_rank.push_back(rank);
  }
  return input;
}

ReplayInput symmetric_replay(const StepGraph& graph) {
  ReplayInput input;
  input.graph = &graph;
  std::vector<int> class_of_program(graph.programs.size(), -1);
  for (int program : graph.program_of_rank) {
    int& own = class_of_program[static_cast<std::size_t>(program)];
    if (own < 0) {
      own = static_cast<int>(input.classes.size());
      input.classes.push_back({program, 0, 1, 1});
    }
    ++input.classes[static_cast<std::size_t>(own)].count;
    input.class_of_rank.push_back(own);
  }
  return input;
}

ReplayResult replay(const ReplayInput& input) {
  if (input.steps < 2)
    throw Error(ErrorKind::failure, "a replay needs two steps at least: the first is the warm-up");
  return ReplayEngine(input).run();
}

}  // namespace foretrain
