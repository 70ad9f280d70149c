// What the verbs that predict have in common: their options, and where their results go.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/verb.hpp"
#include "sim/output/comparison.hpp"
#include "sim/output/file_writer.hpp"
#include "sim/output/result.hpp"
#include "sim/output/sweep.hpp"
#include "sim/output/timeline.hpp"
#include "sim/output/validation_summary.hpp"

namespace foretrain::app {

struct PredictingOptions {
  std::vector<std::string> settings;  // "PATH=VALUE", of --set and --profile
  std::vector<std::string> profiles;
  std::string json, csv, trace, report;  // targets, empty where not asked for
  std::uint64_t seed = 1;
};

void add_predicting_options(CLI::App& command, PredictingOptions& options);

// What validation/ of the data folders says; warns of files that cannot be read.
std::optional<ValidationSummary> validation_that_ships();

// The targets, opened before anything is computed, so that a name that cannot be written is found at once.
class ResultTargets {
 public:
  // Throws Error where two results go to one target.
  explicit ResultTargets(const PredictingOptions& options);

  bool wants_trace() const { return trace_ != nullptr; }
  // Of one scenario a report shows the ranks' timeline too.
  bool wants_timeline(std::size_t scenarios) const {
    return trace_ != nullptr || (report_ != nullptr && scenarios == 1);
  }
  // Writes all of them, and the table to standard output unless one of them goes there.
  void write(std::span<const Result> results, const Timeline* timeline);
  void write(const Sweep& sweep);
  // The comparison as JSON and as the table, its results as the rest.
  void write(const Comparison& comparison, std::span<const Result> results, const Timeline* timeline);

 private:
  void write_beside(std::span<const Result> results, const Timeline* timeline);
  void write_report(std::span<const Result> results, const Timeline* timeline = nullptr);

  std::unique_ptr<FileWriter> json_, csv_, trace_, report_;
  std::string trace_name_;  // its ending says which format
  bool table_ = true;
};

}  // namespace foretrain::app
