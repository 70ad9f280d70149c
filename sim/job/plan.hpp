// Which of several predicted jobs meets a deadline and a budget.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/output/result.hpp"

namespace foretrain {

struct PlanBounds {
  std::optional<double> deadline;  // seconds
  std::optional<double> budget;    // of `currency`
  std::string currency;
};

struct PlanRow {
  std::string name;
  std::size_t result = 0;  // into the results
  int workers = 0;         // most of its phases
  double time = 0;
  double expense = 0;  // cost, GPU-hours where there is no price
  bool fits_memory = true, feasible = false, on_front = false;
  std::vector<std::string> warnings;
  std::vector<Extrapolation> extrapolated;
};

// Rows in the order of the results. Indices are into `rows`.
struct Plan {
  PlanBounds bounds;
  std::string expense;  // "USD" or "GPU-hours"
  std::vector<PlanRow> rows;
  std::optional<std::size_t> fastest, cheapest;  // of the feasible ones
  std::optional<std::size_t> nearest;            // where none is feasible: the least overrun
  std::vector<std::string> advice;
};

// Every result has a job. Throws Error (input) where a budget meets no price or another currency.
Plan plan_of(std::span<const Result> results, std::span<const std::string> names, const PlanBounds& bounds);

// "400 USD" or "400USD". Throws Error (input).
std::pair<double, std::string> parse_budget(const std::string& text);

}  // namespace foretrain
