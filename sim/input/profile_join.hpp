// Several measurements as one profile: a further run of calibrate on the same GPU type, or the list of
// profiles of a scenario.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/training/profile.hpp"

namespace foretrain {

// What is measured on a machine: the GPU's name, else the processor's.
const std::string& device_of(const Machine& machine);
// What the profile was measured on; empty where it has no run.
std::string device_of(const Profile& profile);

// Whether only collectives were timed: such a profile describes a network and joins any GPU type.
bool is_collectives_only(const Profile& profile);

// Extends a profile by a further run: entries of `more` replace those of the same key (operator, layer,
// model, precision, batch; kind, ranks, nodes, network, algorithm, protocol, bytes; ...), all others are
// added. Throws Error(input) where the GPU type or the backend differs.
void merge_profile(Profile& into, Profile more);

// The joined profile of a scenario's list: later entries win. A profile of collectives alone may come from
// another machine, then only its collectives are taken, with `source` set. Throws Error(input) where GPU
// types mix, or the list is empty.
Profile join_profiles(const std::vector<std::shared_ptr<const Profile>>& profiles);

}  // namespace foretrain
