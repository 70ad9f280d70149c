// Reads and writes what the validation of the parts needs and says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "execute/parts_validation.hpp"
#include "sim/input/diagnostics.hpp"
#include "sim/output/json_writer.hpp"
#include "sim/output/text_layout.hpp"

namespace foretrain {

// Whether a text is of the kind that `calibrate --validate-parts` writes, "foretrain/calibration-check/1".
bool is_calibration_check(std::string_view json);

// The data-parallel steps in such a text; what cannot be read is a finding.
std::vector<OverlapEntry> parse_overlaps(std::string_view json, const std::string& file,
                                         Diagnostics& diagnostics);

// Schema "foretrain/parts-validation/1": `profile`, `rows` (seconds and bytes), `summary` by kind.
void write_parts_json(const PartsValidation& validation, const TextSink& sink);
void write_parts_csv(const PartsValidation& validation, const TextSink& sink);
std::string parts_table(const PartsValidation& validation);

}  // namespace foretrain
