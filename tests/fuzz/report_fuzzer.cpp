// All that report takes, made into a page.
#include "app/report_inputs.hpp"
#include "sim/output/html.hpp"
#include "tests/fuzz/fuzz.hpp"

FORETRAIN_FUZZ(report) {
  foretrain::app::ReportInputs inputs;
  inputs.add(std::string(text), "input.json");
  std::vector<std::string> notes;
  const std::vector<foretrain::Result> results = inputs.results(notes);
  foretrain::HtmlExtras extras;
  extras.sections = inputs.sections();
  std::size_t written = 0;
  foretrain::write_html(
      results, std::nullopt, [&](std::string_view piece) { written += piece.size(); }, extras);
}
