// How fast a host launches. A virtual or shared one has more than one speed and changes it within seconds:
// what one window of a calibration saw is one draw, and all windows of a model together say how fast the host
// is and how far it strays.
#pragma once

#include <cstdint>
#include <string>

#include "sim/training/profile.hpp"

namespace foretrain {

struct HostSpeed {
  double factor = 1;  // on the host times of this batch: the median of all windows over those at this batch
  // How far a run's host may be from the median, relative to it, with 90 %: beyond the farthest windows where
  // few times were seen.
  double slower = 0, faster = 0;
  int windows = 0;
};

// From the times to issue a step, and those of whole steps that their host bounds, by launch, of the model at
// all batches that launch about as much; where there are few, how far hosts stray is that of the model at all
// lengths of sequence, or of all models of the profile.
HostSpeed host_speed(const Profile& profile, const std::string& model, Precision precision,
                     std::int64_t sequence, std::int64_t batch);

struct LaunchContention {
  double factor = 1;
  double slower = 0, faster = 0;  // what calibration saw at most and least, relative to the factor
};

// Host time of a launch where `workers` GPUs of a node are served by as many threads of one process over that
// of one alone: by the host-bound steps that calibration timed on several at once without communication, of
// this model and precision, else of any. With more threads than calibration had it stays what it was, and may
// be more in proportion to how many others there are.
LaunchContention launch_contention(const Profile& profile, const std::string& model, Precision precision,
                                   int workers);

}  // namespace foretrain
