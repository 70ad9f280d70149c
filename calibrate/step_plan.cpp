#include "calibrate/step_plan.hpp"

#include <algorithm>

namespace foretrain::calibrate {

double longest_hold(int launches, double host_a_launch) {
  constexpr double most = 1, least = 2e-3;
  constexpr int filling = 1300;  // launches; CUDA's queue takes 1,022
  if (launches <= gate_launches || !(host_a_launch > 0)) return most;
  return std::clamp(filling * host_a_launch, least, most);
}

StepPlan::StepPlan(device::Program& program) : program_(program) {
  const auto add = [&](Slot slot) {
    if (slot.launches <= 0) return;
    launches_ += slot.launches;
    slots_.push_back(slot);
  };
  add({Slot::Kind::prepare_weights, {}, program.prepare_launches()});
  add({Slot::Kind::zero_gradients, {}, program.zero_launches()});
  for (const device::WorkItem& item : program.forward_items())
    add({Slot::Kind::layer, item, program.launches(item)});
  first_backward_ = slots_.size();
  for (const device::WorkItem& item : program.backward_items())
    add({Slot::Kind::layer, item, program.launches(item)});
  backward_end_ = slots_.size();
  add({Slot::Kind::update, {}, program.update_launches()});
}

void StepPlan::issue(std::size_t slot) {
  const Slot& what = slots_[slot];
  switch (what.kind) {
    case Slot::Kind::prepare_weights:
      return program_.prepare_weights();
    case Slot::Kind::zero_gradients:
      return program_.zero_gradients();
    case Slot::Kind::layer:
      return program_.issue(what.item);
    case Slot::Kind::update:
      return program_.update();
  }
}

void StepPlan::capture(device::Worker& worker) {
  captured_ = worker.record_work([this] {
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) issue(slot);
  });
}

void StepPlan::issue_all() {
  if (captured_) {
    program_.prepare_recorded_update();
    return captured_->issue();
  }
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) issue(slot);
}

}  // namespace foretrain::calibrate
