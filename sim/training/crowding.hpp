// What workers on the cores of one host cost each other: caches, memory, and hardware threads of one core.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/training/profile.hpp"

namespace foretrain {

struct Crowding {
  double factor = 1;
  double slower = 0, faster = 0;  // what calibration saw at most and least, relative to the factor
};

// Time of a worker's kernels where `workers` compute on one node over that of one alone: by the steps that
// calibration timed on several at once without communication, over those of one in turns with them where it
// timed such, else over its step by itself; of this model and precision, else of any;
// between and beyond numbers of workers in proportion to how many others there are. 1 on GPUs, which share
// none of it, and where nothing was timed so.
Crowding crowding_of(const Profile& profile, const std::string& model, Precision precision, int workers);

// What each other worker added, at least 0, in the steps that calibration timed on `ranks` at once without
// communication: over the time of one alone, which `alone_of` tells of the same step by itself, or that it
// tells nothing. Of this model and precision, else of any.
struct AddedByOther {
  double share = 0;
  int ranks = 0;
};
using AloneOf = std::function<std::optional<double>(const StepEntry&)>;
std::vector<AddedByOther> added_by_others(const Profile& profile, const std::string& model,
                                          Precision precision, const AloneOf& alone_of);

// Threads of a worker, of each run of a profile of CPUs that tells; empty for GPUs.
std::vector<int> threads_of(const Profile& profile);

}  // namespace foretrain
