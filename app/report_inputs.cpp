#include "app/report_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "execute/run_record_json.hpp"
#include "execute/run_report.hpp"
#include "sim/base/error.hpp"
#include "sim/input/file_kind.hpp"
#include "sim/input/json_tree.hpp"
#include "sim/input/profile_json.hpp"
#include "sim/network/collectives.hpp"

namespace foretrain::app {
namespace {

// Our files begin with their schema.
bool has_schema(std::string_view text, std::string_view schema) {
  constexpr std::size_t head = 1024;
  return text.substr(0, head).find('"' + std::string(schema) + '"') != std::string_view::npos;
}

double number(const JsonNode& of, const char* name) {
  const JsonNode* found = of.find(name);
  return found != nullptr && found->is_number() ? found->number() : 0;
}

std::string text_of(const JsonNode& of, const char* name) {
  const JsonNode* found = of.find(name);
  return found == nullptr ? std::string() : std::string(found->text());
}

// Calls `take` for each object of the root's list `name`.
template <typename Take>
JsonTree rows_of(const std::string& text, const std::string& file, Take take) {
  Diagnostics diagnostics;
  auto tree = JsonTree::parse(text, file, diagnostics);
  diagnostics.throw_errors();
  if (const JsonNode* rows = tree->root().find("rows"); rows != nullptr && rows->is_array()) {
    for (std::size_t i = 0; i < rows->size(); ++i)
      if ((*rows)[i].is_object()) take((*rows)[i]);
  }
  return std::move(*tree);
}

}  // namespace

void ReportInputs::add(const std::string& text, const std::string& file) {
  if (has_schema(text, RunRecord::schema)) return add_run(text, file);
  if (has_schema(text, "foretrain/validation/1")) return add_validation(text, file);
  if (has_schema(text, "foretrain/collective/1")) return add_collective(text, file);
  if (has_schema(text, Profile::schema)) return add_profile(text, file);
  Diagnostics diagnostics;
  refuse_other_kind(text, file, FileKind::result, diagnostics);
  diagnostics.throw_errors();
  read_.push_back(read_results_of(text, file));
}

void ReportInputs::add_run(const std::string& text, const std::string& file) {
  Diagnostics diagnostics;
  const auto record = parse_run_record(text, file, diagnostics);
  diagnostics.throw_errors();
  const Result* predicted = nullptr;
  if (record->prediction && !record->prediction->json.empty()) {
    // Repeats have one prediction, which is shown once.
    const auto [known, is_new] = predictions_.try_emplace(record->prediction->json);
    if (is_new) {
      known->second = read_results_of(record->prediction->json, file).results;
      read_.push_back({file, known->second, {}, 0});
    }
    if (!known->second.empty()) predicted = &known->second.front();
  }
  runs_.push_back(measured_run(*record, predicted));
  if (const auto row = measured_row(*record)) rows_.push_back(*row);
}

void ReportInputs::add_validation(const std::string& text, const std::string& file) {
  rows_of(text, file, [&](const JsonNode& row) {
    MeasuredRow out;
    out.name = text_of(row, "scenario");
    out.measured = number(row, "measured_s");
    out.predicted = number(row, "predicted_before_s");
    if (out.predicted <= 0) out.predicted = number(row, "predicted_s");
    out.low = number(row, "low_s");
    out.high = number(row, "high_s");
    const JsonNode* distance = row.find("distance");
    out.in_sample = distance == nullptr || distance->size() == 0;
    if (out.measured > 0 && out.predicted > 0) rows_.push_back(std::move(out));
  });
}

void ReportInputs::add_collective(const std::string& text, const std::string& file) {
  PredictedCollective out;
  const JsonTree tree = rows_of(text, file, [&](const JsonNode& row) {
    const double bytes = number(row, "bytes"), time = number(row, "time_s"), rate = number(row, "busbw_Bps");
    const double low = number(row, "low_s"), high = number(row, "high_s");
    if (bytes <= 0 || rate <= 0) return;
    out.points.emplace_back(bytes, rate);
    out.intervals.emplace_back(high > 0 ? rate * time / high : 0, low > 0 ? rate * time / low : 0);
  });
  out.kind = text_of(tree.root(), "kind");
  out.topology = text_of(tree.root(), "topology");
  out.ranks = static_cast<int>(number(tree.root(), "ranks"));
  out.nodes = static_cast<int>(number(tree.root(), "nodes"));
  predicted_.push_back(std::move(out));
}

void ReportInputs::add_profile(const std::string& text, const std::string& file) {
  Diagnostics diagnostics;
  const auto profile = parse_profile(text, file, diagnostics);
  diagnostics.throw_errors();
  std::map<std::tuple<std::string, int, int, std::string>, std::map<double, double>> curves;
  for (const CollectiveEntry& entry : profile->collectives) {
    const auto kind = collective_kind(entry.kind);
    if (!kind || entry.algorithm != "auto" || entry.time.median <= 0) continue;
    const double bytes = static_cast<double>(entry.bytes);
    curves[{entry.kind, entry.ranks, entry.nodes, entry.network}].emplace(
        bytes, bytes / entry.time.median * bus_factor(*kind, entry.ranks));
  }
  for (const auto& [key, points] : curves) {
    const auto& [kind, ranks, nodes, network] = key;
    measured_.push_back({kind, network, profile->name, ranks, nodes, {points.begin(), points.end()}});
  }
}

std::vector<Result> ReportInputs::results(std::vector<std::string>& notes) {
  return joined_results(std::move(read_), notes);
}

std::vector<std::string> ReportInputs::sections() const {
  std::vector<std::string> out;
  if (rows_.size() > 1) out.push_back(html_scatter(rows_));
  for (const MeasuredRun& run : runs_) out.push_back(html_run(run));
  std::vector<CollectiveComparison> comparisons;
  for (const PredictedCollective& predicted : predicted_) {
    CollectiveComparison comparison;
    comparison.title = fmt::format("{} over {} ranks on {} node{}, {}", predicted.kind, predicted.ranks,
                                   predicted.nodes, predicted.nodes == 1 ? "" : "s", predicted.topology);
    for (const MeasuredCollective& measured : measured_) {
      if (measured.kind != predicted.kind || measured.ranks != predicted.ranks ||
          measured.nodes != predicted.nodes)
        continue;
      comparison.lines.push_back(
          {"measured, " + measured.profile + (measured.network.empty() ? "" : ", " + measured.network),
           true,
           measured.points,
           {}});
    }
    comparison.lines.push_back({"modelled", false, predicted.points, predicted.intervals});
    comparisons.push_back(std::move(comparison));
  }
  out.push_back(html_collectives(comparisons));
  return out;
}

}  // namespace foretrain::app
