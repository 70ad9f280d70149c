// What a whole step takes over the sum of its parts. Parts are timed with events between them, whole steps
// without: where a step draws the device's whole power, its clock differs between the two (vgg16 on an
// H200: 2.2 %).
#pragma once

#include <cstdint>
#include <string>

#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// StepWorkEntry::what of a whole step captured as one CUDA graph: its time, and the host's to launch it.
inline constexpr const char* captured_step_work = "captured_step";

// A step of that model, precision and length of sequence.
bool is_step_of(const StepEntry& entry, const std::string& model, Precision precision, std::int64_t sequence);
// It may be the host that makes it long.
bool is_host_bound(const StepEntry& entry);

// Seconds of the device for one step as its parts were timed at a batch and a length of sequence, the latest
// of each.
struct TimedParts {
  double passes = 0;  // of all layers, each with its share of the gaps between kernels
  double beside = 0;  // of what belongs to no layer: casts, zeroing, the update; no copy of the input
  bool has_update = false;
};
TimedParts timed_parts(const Profile& profile, const std::string& model, Precision precision,
                       std::int64_t batch, std::int64_t sequence);

// Factor on the device times of all parts: of the profile's whole steps of the model at its length of
// sequence, interpolated over the logarithm of the batch, beyond the measured ones that of the nearest. Steps
// whose host takes as long as they do tell nothing and are left out. 1 where none is left.
double whole_over_parts(const Model& model, const Profile& profile, Precision precision, std::int64_t batch);

// A step that its host bounds is no shorter than its kernels: below 1 where they were longer when the device
// had all of them queued, as those of cuDNN's recurrences on several streams are (char-rnn 0.85). The least
// of the batches beside.
double shortest_over_parts(const Model& model, const Profile& profile, Precision precision,
                           std::int64_t batch);

// Of cores, which a virtual machine shares with others and which change their speed from one minute to the
// next: by how much the whole steps of the model differ from their parts, timed seconds before, at the batch
// where they differ most. 0 on GPUs.
double drift_of_cores(const Model& model, const Profile& profile, Precision precision);

// Where a batch lies between two others, by logarithms: 0 to 1.
double share_between(std::int64_t low, std::int64_t high, std::int64_t batch);

}  // namespace foretrain
