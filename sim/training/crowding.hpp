// What workers on the cores of one host cost each other: caches, memory, and hardware threads of one core.
#pragma once

#include "sim/training/profile.hpp"

namespace foretrain {

// Time of a worker's kernels where `workers` compute on one node over that of one alone: by the steps that
// calibration timed on several at once without communication, of this model and precision, else of any;
// between and beyond numbers of workers in proportion to how many others there are. 1 on GPUs, which share
// none of it, and where nothing was timed so.
double crowding_factor(const Profile& profile, const std::string& model, Precision precision, int workers);

}  // namespace foretrain
