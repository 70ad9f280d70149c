// Results as one HTML page that needs nothing else: no script, no font, no image from anywhere.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/output/json_writer.hpp"
#include "sim/output/result.hpp"
#include "sim/output/timeline.hpp"
#include "sim/output/validation_summary.hpp"

namespace foretrain {

struct HtmlExtras {
  const Timeline* timeline = nullptr;  // of the first result's step
  std::vector<std::string> sections;   // HTML: measurements beside the predictions
};

// The page of no results and no sections is empty.
void write_html(std::span<const Result> results, const std::optional<ValidationSummary>& validation,
                const TextSink& sink, const HtmlExtras& extras = {});

}  // namespace foretrain
