#include "calibrate/session.hpp"

#include "sim/base/error.hpp"

namespace foretrain::calibrate {

void await(Session& session, device::Event event) {
  int polls = 0;
  while (!session.worker.reached(event)) {
    session.clock.pause();
    if (++polls % 64 == 0) {
      session.check();
      if (session.group && session.group->failed())
        throw Error(ErrorKind::failure, "another rank of the measurement failed");
    }
  }
}

device::Event EventPool::take() {
  if (used_ == events_.size()) events_.push_back(worker_.make_event());
  return events_[used_++];
}

void hold_compute(device::Worker& worker, double most_seconds) {
  worker.close_gate(device::StreamKind::compute, most_seconds);
  worker.spin_kernel(device::StreamKind::compute, 20e-6);
}

}  // namespace foretrain::calibrate
