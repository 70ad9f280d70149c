#include "sim/training/step_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

using Meeting = std::tuple<CollectiveKind, std::int64_t, int>;

std::vector<Meeting> meetings(const RankProgram& program, int group) {
  std::vector<Meeting> all;
  for (const Operation& operation : program.operations) {
    if (operation.group == group) all.emplace_back(operation.kind, operation.bytes.count(), operation.root);
  }
  return all;
}

void validate_program(const RankProgram& program, int groups) {
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& operation = program.operations[i];
    if (operation.group >= groups) {
      throw Error(ErrorKind::failure,
                  fmt::format("step graph: '{}' names a group that is not there", operation.name));
    }
    for (int before : operation.after) {
      if (before < 0 || static_cast<std::size_t>(before) >= i) {
        throw Error(
            ErrorKind::failure,
            fmt::format("step graph: '{}' waits for an operation that is issued after it", operation.name));
      }
    }
  }
}

}  // namespace

void validate(const StepGraph& graph) {
  for (const RankProgram& program : graph.programs) {
    validate_program(program, static_cast<int>(graph.groups.size()));
  }
  for (std::size_t g = 0; g < graph.groups.size(); ++g) {
    const ProcessGroup& group = graph.groups[g];
    std::vector<std::vector<Meeting>> of_program(graph.programs.size());
    for (std::size_t p = 0; p < graph.programs.size(); ++p) {
      of_program[p] = meetings(graph.programs[p], static_cast<int>(g));
    }
    const std::vector<Meeting>* first = nullptr;
    for (int rank : group.ranks) {
      const int program = graph.program_of_rank.at(static_cast<std::size_t>(rank));
      const std::vector<Meeting>& own = of_program.at(static_cast<std::size_t>(program));
      if (first == nullptr) first = &own;
      if (own != *first) {
        throw Error(
            ErrorKind::failure,
            fmt::format("step graph: rank {} and rank {} disagree about the collectives of group '{}'", rank,
                        group.ranks.front(), group.name));
      }
    }
  }
}

void split_long_operations(RankProgram& program, int most_launches) {
  const auto is_long = [&](const Operation& operation) {
    return operation.group < 0 && operation.launches > most_launches;
  };
  if (std::none_of(program.operations.begin(), program.operations.end(), is_long)) return;
  std::vector<Operation> split;
  std::vector<int> last_of;  // of each operation, its last part
  for (Operation& operation : program.operations) {
    for (int& before : operation.after) before = last_of[static_cast<std::size_t>(before)];
    const int parts = is_long(operation) ? (operation.launches + most_launches - 1) / most_launches : 1;
    const auto until = [&](Time whole, int part) { return whole * (static_cast<double>(part) / parts); };
    for (int part = 0; part < parts; ++part) {
      Operation share = operation;
      share.host = until(operation.host, part + 1) - until(operation.host, part);
      share.device = until(operation.device, part + 1) - until(operation.device, part);
      share.launches = operation.launches / parts + (part < operation.launches % parts ? 1 : 0);
      if (part > 0) share.after.clear();
      split.push_back(std::move(share));
    }
    last_of.push_back(static_cast<int>(split.size()) - 1);
  }
  program.operations = std::move(split);
}

}  // namespace foretrain
