// Profiles as JSON, schema "foretrain/profile/1", also compressed with gzip. A Sample is written as
// [median, low, high, spread, repetitions] in seconds, a PassTiming as [device, host, launches], the passes
// of an operator as [forward, backward_data, backward_weights]; numbers round-trip; members that have their
// default are left out.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "sim/input/diagnostics.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// One entry a line. Throws Error(failure) where a number is not finite.
std::string profile_to_json(const Profile& profile);

// What a profile is read for: operators timed in a model and a precision.
struct OperatorUse {
  std::string model;
  Precision precision = Precision::fp32;
};

// Strict: unknown, missing and mistyped members, another schema, impossible values (negative times, a batch
// of zero) are findings with the JSON pointer. None where there was an error.
// With a use only its operators are read: the others, most of a profile of many models, are passed over.
std::optional<Profile> parse_profile(std::string_view json, const std::string& file, Diagnostics& diagnostics,
                                     const std::optional<OperatorUse>& use = {});

// Compressed or not; a file that cannot be read, is truncated or damaged is a finding as well.
std::optional<Profile> read_profile(const std::filesystem::path& path, Diagnostics& diagnostics,
                                    const std::optional<OperatorUse>& use = {});

// Compressed where the name ends in .gz; written aside and renamed.
void write_profile(const Profile& profile, const std::filesystem::path& path);

}  // namespace foretrain
