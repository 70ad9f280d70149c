// Measurements beside predictions, as parts of the HTML report: runs, validations, collectives.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace foretrain {

// A row of a validation, in seconds.
struct MeasuredRow {
  std::string name;
  double measured = 0, predicted = 0;
  double low = 0, high = 0;  // 90 % interval of the prediction; equal where there is none
  bool in_sample = false;    // calibration had seen all of it
};
// Predicted against measured, with lines for 5 % off; the worst rows as a table.
std::string html_scatter(std::span<const MeasuredRow> rows);

// What was sampled beside a run, over seconds, and what was predicted of it.
struct SampledChart {
  std::string title, unit;
  struct Line {
    std::string label;
    std::vector<std::pair<double, double>> points;
  };
  std::vector<Line> lines;
  std::vector<std::pair<std::string, double>> predicted;  // levels
};
struct MeasuredRun {
  std::string name;
  struct Part {
    std::string name;
    std::optional<double> measured, predicted;  // seconds of a step
  };
  std::vector<Part> parts;
  struct Use {
    std::string node;
    double cores = 0;                             // busy, mean
    double resident_mean = 0, resident_peak = 0;  // bytes
    double sent = 0;                              // bytes over the network
  };
  std::vector<Use> uses;
  std::optional<double> checkpoint_memory;  // bytes more than before, at most
  std::vector<SampledChart> charts;
};
std::string html_run(const MeasuredRun& run);

// Bus bandwidth of a collective by size.
struct CollectiveComparison {
  std::string title;
  struct Line {
    std::string label;
    bool measured = false;
    std::vector<std::pair<double, double>> points;     // bytes, bytes per second
    std::vector<std::pair<double, double>> intervals;  // of each point, or none
  };
  std::vector<Line> lines;
};
std::string html_collectives(std::span<const CollectiveComparison> all);

}  // namespace foretrain
