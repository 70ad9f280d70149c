#include "sim/training/replay.hpp"

#include <map>

#include "sim/base/error.hpp"
#include "sim/training/replay_engine.hpp"

namespace foretrain {

ReplayEngine::ReplayEngine(const ReplayInput& input)
    : input_(input),
      graph_(*input.graph),
      own_clocks_(input.classes.size() > 1 && !input.sharing && collectives_are_free()) {
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
  std::map<std::pair<int, double>, const ReplayProgram*> known;
  for (std::size_t c = 0; c < ranks_.size(); ++c) {
    const RankClass& like = input_.classes[c];
    const ReplayProgram*& program = known[{like.program, like.host_factor}];
    if (program == nullptr) {
      program =
          &programs_.emplace_back(graph_.programs[static_cast<std::size_t>(like.program)], like.host_factor);
    }
    ranks_[c].program = program;
    ranks_[c].compute_factor = like.compute_factor;
    ranks_[c].done.assign(static_cast<std::size_t>(program->size()) * ring, 0);
    ranks_[c].joined.assign(graph_.groups.size(), 0);
  }
}

ReplayResult ReplayEngine::run() {
  for (std::size_t c = 0; c < ranks_.size(); ++c) advance_host(c);
  if (own_clocks_) {
    for (std::size_t c = 0; c < ranks_.size(); ++c) ready_.push_back(c);
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      const std::size_t c = ready_[i];
      while (!ranks_[c].waiting && !queues_[c].empty()) handle(queues_[c].pop().payload);
    }
  } else {
    // Other jobs go on for ever.
    while (!queues_[0].empty() && (own_ == ranks_.size() || finished_ < own_)) {
      handle(queues_[0].pop().payload);
    }
  }
  return result();
}

// Whether no kernel slows a collective.
bool ReplayEngine::collectives_are_free() const {
  for (const RankProgram& program : graph_.programs) {
    for (const Operation& each : program.operations) {
      if (each.group < 0) continue;
      const ProcessGroup& group = graph_.groups[static_cast<std::size_t>(each.group)];
      if (input_.timer(group, each).collective_slowdown != 1) return false;
    }
  }
  return true;
}

void ReplayEngine::handle(const Payload& what) {
  const auto subject = static_cast<std::size_t>(what.subject);
  switch (what.kind) {
    case EventKind::collective_start:
      ranks_[subject].collective = ranks_[subject].joined_last;
      set_slowdown(subject, instances_.at(ranks_[subject].collective).timing.compute_slowdown);
      return;
    case EventKind::collective_end:
      if (own_clocks_) {
        leave(subject);
      } else if (const auto found = instances_.find(what.subject);
                 found != instances_.end() && found->second.version == what.version) {
        end_collective(what.subject);
      }
      return;
    case EventKind::kernel_end:
      if (ranks_[subject].streams[what.stream].version == what.version) end_kernel(subject, what.stream);
      return;
    case EventKind::stream_ready:
      if (ranks_[subject].streams[what.stream].version == what.version) start_next(subject, what.stream);
      return;
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
