// Results as one HTML page that needs nothing else: no script, no font, no image from anywhere.
#pragma once

#include <optional>
#include <span>

#include "sim/output/json_writer.hpp"
#include "sim/output/result.hpp"
#include "sim/output/validation_summary.hpp"

namespace foretrain {

void write_html(std::span<const Result> results, const std::optional<ValidationSummary>& validation,
                const TextSink& sink);

}  // namespace foretrain
