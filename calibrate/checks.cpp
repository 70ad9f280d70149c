#include "calibrate/checks.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/parse_units.hpp"

namespace foretrain::calibrate {

double residual(const CheckRow& row) {
  // Where the host sets the pace the whole step says nothing about the device's parts.
  const bool host_bound = row.host > row.device;
  const double whole = host_bound ? row.device : row.step.median;
  return whole > 0 ? row.parts / whole - 1 : 0;
}

std::string checks_to_json(const std::vector<CheckRow>& rows, const CalibrationRun& run) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CheckRow& row : rows) {
    nlohmann::ordered_json entry = {{"kind", "parts"},
                                    {"model", row.model},
                                    {"precision", foretrain::name_of(row.precision)},
                                    {"batch", row.batch},
                                    {"ranks", 1},
                                    {"step_s", row.step.median},
                                    {"step_low_s", row.step.low},
                                    {"step_high_s", row.step.high},
                                    {"step_p05_s", row.p05},
                                    {"step_p95_s", row.p95},
                                    {"steps", row.step.repetitions}};
    entry["parts_s"] = row.parts;
    entry["host_s"] = row.host;
    entry["device_s"] = row.device;
    entry["residual"] = residual(row);
    entry["event_gap_s"] = row.event_gap;
    entry["event_gap_in_context_s"] = row.event_gap_in_context;
    entry["launches"] = row.launches;
    entry["gated"] = row.gated;
    list.push_back(std::move(entry));
  }
  const nlohmann::ordered_json document = {{"schema", "foretrain/calibration-check/1"},
                                           {"date", run.date},
                                           {"command", run.command},
                                           {"version", run.foretrain},
                                           {"gpu", run.machine.gpu},
                                           {"driver", run.machine.driver},
                                           {"throttled", run.machine.throttled},
                                           {"rows", std::move(list)}};
  return document.dump(1) + "\n";
}

std::string checks_to_text(const std::vector<CheckRow>& rows) {
  std::string text;
  for (const CheckRow& row : rows) {
    const std::string what =
        fmt::format("{} {} batch {}", row.model, foretrain::name_of(row.precision), row.batch);
    const bool host_bound = row.host > row.device;
    text += fmt::format("{:<32} step {:>9}  parts {:>9}  host {:>9}  sum of parts {:+.1f} %{}\n", what,
                        format_time(row.step.median), format_time(row.parts), format_time(row.host),
                        100 * residual(row), host_bound ? " of the device's part (host-bound)" : "");
  }
  return text;
}

}  // namespace foretrain::calibrate
