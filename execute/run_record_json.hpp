// Run records as JSON, schema "foretrain/run/1", also compressed with gzip. Times in seconds, sizes in bytes;
// numbers round-trip; members that have their default are left out.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "execute/run_record.hpp"
#include "sim/input/diagnostics.hpp"

namespace foretrain {

// An entry of `ranks`, `parameters`, ... a line. Throws Error(failure) where a number is not finite.
std::string run_record_to_json(const RunRecord& record);

// Strict: unknown, missing and mistyped members, another schema, impossible values (negative times, a batch
// of zero, ranks with unequal numbers of steps) are findings with the JSON pointer. None where there was an
// error.
std::optional<RunRecord> parse_run_record(std::string_view json, const std::string& file,
                                          Diagnostics& diagnostics);

// Compressed or not; a file that cannot be read, is truncated or damaged is a finding as well.
std::optional<RunRecord> read_run_record(const std::filesystem::path& path, Diagnostics& diagnostics);

// Compressed where the name ends in .gz; written aside and renamed.
void write_run_record(const RunRecord& record, const std::filesystem::path& path);

}  // namespace foretrain
