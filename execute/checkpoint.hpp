// What training is resumed from: the weights, everything else that the optimizer and the layers keep, and how
// many updates were done. A checkpoint is written aside and renamed: the file is always a whole one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "device/backend.hpp"
#include "execute/job_plan.hpp"

namespace foretrain {

struct TrainingState {
  std::int64_t updates = 0;      // done before
  std::vector<LossSeen> losses;  // over the data, of a schedule that looks at it
  std::vector<std::byte> weights, state;
  bool operator==(const TrainingState&) const = default;
};

// The device is drained.
TrainingState take_state(device::Worker& worker, device::Program& program, std::int64_t updates);
// Throws Error (input) where the state does not fit the program.
void put_state(const TrainingState& state, device::Worker& worker, device::Program& program);

// `identity` is what must agree between the run that wrote and the one that reads (checkpoint_identity.hpp).
// Returns the bytes written. Throws Error (failure) where the system refuses, and the file is as before.
std::int64_t write_checkpoint(const std::filesystem::path& path, const std::string& identity,
                              const TrainingState& state);
// None where there is no such file. Throws Error: input where it is another run's, failure where it is
// damaged.
std::optional<TrainingState> read_checkpoint(const std::filesystem::path& path, const std::string& identity);

}  // namespace foretrain
