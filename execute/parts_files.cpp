#include "execute/parts_files.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "sim/input/json_object.hpp"
#include "sim/output/csv.hpp"

namespace foretrain {
namespace {

constexpr const char* check_schema = "foretrain/calibration-check/1";

std::optional<Precision> precision_of(const std::string& word) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
    if (word == name_of(precision)) return precision;
  }
  return std::nullopt;
}

std::string time_text(double seconds) {
  const double ms = seconds * 1e3;
  return fmt::format("{:.{}f} ms", ms, ms < 10 ? 3 : ms < 100 ? 2 : 1);
}

std::string signed_percent(double fraction) {
  return fmt::format("{:+.2f} %", fraction * 100);
}

std::string percent(double fraction) {
  return fmt::format("{:.2f} %", fraction * 100);
}

std::string cell(const std::optional<double>& value) {
  return value ? shortest(*value) : "";
}

std::string_view words_of(const std::string& name) {
  if (name == "whole") return "whole steps from layers";
  if (name == "left_out") return "a batch left out of calibration";
  if (name == "left_out_at_an_end") return "the smallest or largest batch left out";
  if (name == "overlap") return "overlapped steps, interference applied";
  return "overlapped steps, interference ignored";
}

}  // namespace

bool is_calibration_check(std::string_view json) {
  constexpr std::size_t head = 256;
  return json.substr(0, head).find(check_schema) != std::string_view::npos;
}

std::vector<OverlapEntry> parse_overlaps(std::string_view json, const std::string& file,
                                         Diagnostics& diagnostics) {
  const auto root = parse_json_object(json, file, {"check of a calibration", check_schema}, diagnostics);
  std::vector<OverlapEntry> out;
  if (!root) return out;
  try {
    for (const auto& row : root->at("rows")) {
      if (row.at("kind") != "overlap") continue;
      OverlapEntry one;
      one.model = row.at("model").get<std::string>();
      const auto precision = precision_of(row.at("precision").get<std::string>());
      if (!precision) {
        diagnostics.error({file}, fmt::format("has the unknown precision {}", row.at("precision").dump()));
        continue;
      }
      one.precision = *precision;
      one.batch = row.at("batch").get<std::int64_t>();
      one.ranks = row.at("ranks").get<int>();
      one.step.median = row.at("step_s").get<double>();
      one.step.low = row.at("step_low_s").get<double>();
      one.step.high = row.at("step_high_s").get<double>();
      one.step.repetitions = row.at("steps").get<int>();
      one.buckets = row.at("buckets").get<std::vector<std::int64_t>>();
      one.p05 = row.at("step_p05_s").get<double>();
      one.p95 = row.at("step_p95_s").get<double>();
      out.push_back(std::move(one));
    }
  } catch (const nlohmann::json::exception& error) {
    diagnostics.error({file}, fmt::format("is no whole check of a calibration: {}", error.what()));
  }
  return out;
}

void write_parts_json(const PartsValidation& validation, const TextSink& sink) {
  JsonWriter json(sink);
  json.begin_object();
  json.member("schema", "foretrain/parts-validation/1");
  json.member("profile", validation.profile);
  json.key("rows");
  json.begin_array();
  for (const PartsRow& row : validation.rows) {
    json.begin_object();
    json.member("kind", row.kind);
    json.member("model", row.model);
    json.member("precision", name_of(row.precision));
    json.member("batch_per_worker", row.batch);
    if (row.sequence > 0) json.member("sequence", row.sequence);
    json.member("workers", row.workers);
    json.member("measured_s", row.measured);
    json.member("measured_p05_s", row.measured_p05);
    json.member("measured_p95_s", row.measured_p95);
    json.member("predicted_s", row.predicted);
    json.member("low_s", row.low);
    json.member("high_s", row.high);
    json.member("without_interference_s", row.without_interference);
    json.member("error", row.error());
    json.member("hit", row.hit());
    json.member("limiting", row.limiting);
    json.member("extrapolated", row.extrapolated);
    json.member("measured_peak_bytes", row.measured_peak);
    json.member("predicted_peak_bytes", row.predicted_peak);
    json.end_object();
  }
  json.end_array();
  json.key("summary");
  json.begin_object();
  for (const PartsSummary& part : validation.summaries) {
    json.key(part.name);
    json.begin_object();
    json.member("rows", part.rows);
    json.member("mean_abs_error", part.mean_abs_error);
    json.member("max_abs_error", part.max_abs_error);
    json.member("mean_error", part.mean_error);
    json.member("coverage", part.coverage);
    json.end_object();
  }
  json.end_object();
  json.end_object();
  sink("\n");
}

void write_parts_csv(const PartsValidation& validation, const TextSink& sink) {
  sink(
      "kind,model,precision,batch_per_worker,workers,measured_s,measured_p05_s,measured_p95_s,predicted_s,"
      "low_s,"
      "high_s,without_interference_s,error,hit,limiting,extrapolated,measured_peak_bytes,predicted_peak_"
      "bytes\n");
  for (const PartsRow& row : validation.rows) {
    const std::array cells{row.kind,
                           row.model,
                           std::string(name_of(row.precision)),
                           std::to_string(row.batch),
                           std::to_string(row.workers),
                           shortest(row.measured),
                           shortest(row.measured_p05),
                           shortest(row.measured_p95),
                           shortest(row.predicted),
                           shortest(row.low),
                           shortest(row.high),
                           cell(row.without_interference),
                           shortest(row.error()),
                           std::string(row.hit() ? "true" : "false"),
                           row.limiting,
                           std::string(row.extrapolated ? "true" : "false"),
                           cell(row.measured_peak),
                           cell(row.predicted_peak)};
    std::string line = csv_cell(cells[0]);
    for (std::size_t i = 1; i < cells.size(); ++i) line += ',' + csv_cell(cells[i]);
    sink(line + '\n');
  }
}

std::string parts_table(const PartsValidation& validation) {
  using Align = TextTable::Align;
  TextTable table({Align::left, Align::left, Align::left, Align::right, Align::right, Align::right,
                   Align::right, Align::right, Align::left, Align::left, Align::right, Align::right});
  table.add({"", "model", "prec.", "batch", "workers", "measured", "predicted", "error", "interval", "limit",
             "no interf.", "memory"});
  for (const PartsRow& row : validation.rows) {
    const bool has_memory = row.measured_peak && row.predicted_peak;
    table.add({row.extrapolated         ? "left out, end"
               : row.kind == "left_out" ? "left out"
                                        : row.kind,
               row.model, name_of(row.precision),
               row.sequence > 0 ? fmt::format("{} x {}", row.batch, row.sequence) : std::to_string(row.batch),
               std::to_string(row.workers), time_text(row.measured), time_text(row.predicted),
               signed_percent(row.error()),
               row.hit()                ? "hit"
               : row.measured < row.low ? "below"
                                        : "above",
               row.limiting,
               row.without_interference ? signed_percent(*row.without_interference / row.measured - 1) : "",
               has_memory ? signed_percent(*row.predicted_peak / *row.measured_peak - 1) : ""});
  }
  TextTable summary({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right});
  summary.add({"", "rows", "mean |e|", "max |e|", "mean e", "coverage"});
  for (const PartsSummary& part : validation.summaries) {
    summary.add({std::string(words_of(part.name)), std::to_string(part.rows), percent(part.mean_abs_error),
                 percent(part.max_abs_error), signed_percent(part.mean_error),
                 fmt::format("{:.0f} %", part.coverage * 100)});
  }
  return table.text() + '\n' + summary.text();
}

}  // namespace foretrain
