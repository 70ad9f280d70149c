// The sum of a step's parts against the whole step of a run of its own: validation alone, nothing here enters
// a profile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

struct CheckRow {
  std::string model;
  Precision precision = Precision::fp32;
  std::int64_t batch = 0;
  Sample step;  // measured
  double p05 = 0, p95 = 0;
  double parts = 0;                 // sum of the parts' device times
  double host = 0;                  // of the host to issue a step
  double device = 0;                // whole steps behind the gate: the device alone
  double event_gap = 0;             // what was taken out for an event
  double event_gap_in_context = 0;  // what the same data say it costs between these kernels
  int launches = 0;
  bool gated = false;
};

// Parts over the slower of device and host, minus one: parts against the device's whole step where the host
// sets the pace.
double residual(const CheckRow& row);

// {"schema": "foretrain/calibration-check/1", "machine": ..., "rows": [...]}, seconds and bytes.
std::string checks_to_json(const std::vector<CheckRow>& rows, const CalibrationRun& run);

// A table for people, a line a row.
std::string checks_to_text(const std::vector<CheckRow>& rows);

}  // namespace foretrain::calibrate
