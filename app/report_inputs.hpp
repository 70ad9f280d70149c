// The files that a report is made of, each by its schema.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/output/html_measured.hpp"
#include "sim/output/result_reader.hpp"

namespace foretrain::app {

// A line of `collective --json`.
struct PredictedCollective {
  std::string kind, topology;
  int ranks = 0, nodes = 0;
  std::vector<std::pair<double, double>> points, intervals;  // bytes, bytes per second of bus bandwidth
};
// Of a profile: what the library picked.
struct MeasuredCollective {
  std::string kind, network, profile;
  int ranks = 0, nodes = 0;
  std::vector<std::pair<double, double>> points;
};

class ReportInputs {
 public:
  // Throws Error(input) for what is none of these, or damaged.
  void add(const std::string& text, const std::string& file);

  // Those of the files, and of the predictions that run records hold.
  std::vector<Result> results(std::vector<std::string>& notes);
  // HTML beside the results.
  std::vector<std::string> sections() const;

 private:
  void add_run(const std::string& text, const std::string& file);
  void add_validation(const std::string& text, const std::string& file);
  void add_collective(const std::string& text, const std::string& file);
  void add_profile(const std::string& text, const std::string& file);

  std::vector<ReadResults> read_;
  std::map<std::string, std::vector<Result>> predictions_;  // of run records, by their JSON
  std::vector<MeasuredRun> runs_;
  std::vector<MeasuredRow> rows_;
  std::vector<PredictedCollective> predicted_;
  std::vector<MeasuredCollective> measured_;
};

}  // namespace foretrain::app
