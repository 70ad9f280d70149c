// A training step as the list of what the host issues, in order: preparation, layer passes, update.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/backend.hpp"

namespace foretrain::calibrate {

struct Slot {
  enum class Kind { prepare_weights, zero_gradients, layer, update } kind = Kind::layer;
  device::WorkItem item;  // of a layer's pass
  int launches = 0;
};

class StepPlan {
 public:
  // Keeps a reference to the program. Parts without launches are left out.
  explicit StepPlan(device::Program& program);

  const std::vector<Slot>& slots() const { return slots_; }
  std::size_t size() const { return slots_.size(); }
  void issue(std::size_t slot);
  void issue_all();
  // From now on issue_all() issues a recording of all slots as one launch. Throws Error (unavailable) where
  // the backend cannot record them.
  void capture(device::Worker& worker);
  int launches() const { return launches_; }
  std::size_t first_backward() const { return first_backward_; }  // size() where there is none
  std::size_t backward_end() const { return backward_end_; }
  device::Program& program() { return program_; }

 private:
  device::Program& program_;
  std::vector<Slot> slots_;
  std::unique_ptr<device::Recording> captured_;
  int launches_ = 0;
  std::size_t first_backward_ = 0, backward_end_ = 0;
};

// Launches that may wait behind a closed gate: below the driver's queue (about 1,024), where the host would
// block and the gate never open.
inline constexpr int gate_launches = 700;

// How long a gate may hold a stretch of so many launches, at so much host time each: of more than the queue
// takes (a layer of thousands, as an unrolled recurrence is) until the queue is full, for then the host would
// wait for the gate.
double longest_hold(int launches, double host_a_launch);

}  // namespace foretrain::calibrate
