#include "tests/support/result_checks.hpp"
#include "tests/support/approx.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/parse_units.hpp"
#include "sim/input/result_check.hpp"
#include "sim/output/console.hpp"
#include "sim/output/csv.hpp"
#include "sim/output/json.hpp"

namespace foretrain::test {

using nlohmann::json;

namespace {

// Reads RFC 4180 back.
std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string cell;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        cell += c;
        ++i;
      } else if (c == '"') {
        quoted = false;
      } else {
        cell += c;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',' || c == '\n') {
      row.push_back(cell);
      cell.clear();
      if (c == '\n') {
        rows.push_back(row);
        row.clear();
      }
    } else {
      cell += c;
    }
  }
  CHECK(row.empty());
  CHECK_FALSE(quoted);
  return rows;
}

std::string csv_of(std::span<const Result> results) {
  std::string text;
  write_csv(results, [&](std::string_view piece) { text += piece; });
  return text;
}

std::string json_of(std::span<const Result> results) {
  std::string text;
  write_json(results, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace

void check_csv_against_json(std::span<const Result> results) {
  const auto rows = rows_of(csv_of(results));
  REQUIRE(rows.size() == results.size() + 1);
  for (std::size_t r = 0; r < results.size(); ++r) {
    const json object = json::parse(json_of({&results[r], 1}));
    REQUIRE(rows[r + 1].size() == rows[0].size());
    for (std::size_t c = 0; c < rows[0].size(); ++c) {
      std::string pointer = '/' + rows[0][c];
      std::replace(pointer.begin(), pointer.end(), '.', '/');
      const std::string& cell = rows[r + 1][c];
      CAPTURE(pointer);
      const json::json_pointer at(pointer);
      if (!object.contains(at)) {  // below a member that is null
        CHECK(cell.empty());
        const auto is_null = [&](std::string above) {
          for (std::size_t slash; (slash = above.rfind('/')) > 0;) {
            above.erase(slash);
            if (object.contains(json::json_pointer(above)))
              return object[json::json_pointer(above)].is_null();
          }
          return false;
        };
        CHECK(is_null(pointer));
        continue;
      }
      const json value = object[at];
      if (value.is_null()) {
        CHECK(cell.empty());
      } else if (value.is_string()) {
        CHECK(value == cell);
      } else if (value.is_array()) {
        CHECK(std::to_string(value.size()) == cell);
      } else {
        CHECK(value == json::parse(cell));
      }
    }
  }
}

void check_result_itself(const Result& result) {
  Diagnostics diagnostics;
  CHECK(check_result(json_of({&result, 1}), "result.json", diagnostics) == 1);
  for (const Diagnostic& finding : diagnostics.errors()) FAIL_CHECK(finding.text());
  const StepPrediction& step = result.step;
  CHECK(step.time > 0);
  CHECK(step.time == step.p50);
  constexpr double rounding = 1e-9;
  CHECK(step.low <= step.time * (1 + rounding));
  CHECK(step.high >= step.time * (1 - rounding));
  CHECK(step.low >= 0);
  CHECK(step.p05 <= step.p50 * (1 + rounding));
  CHECK(step.p95 >= step.p50 * (1 - rounding));
  const auto is_fraction = [](double value) { return value >= 0 && value <= 1 + rounding; };
  CHECK(is_fraction(result.gpu.busy));
  CHECK(is_fraction(result.gpu.computing));
  CHECK(is_fraction(result.gpu.communicating));
  CHECK(is_fraction(result.communication.overlap));
  CHECK(result.communication.exposed <= result.communication.busy * (1 + rounding));
  for (const LinkUse& link : result.links) CHECK(is_fraction(link.utilisation));
  CHECK(result.samples_per_second * step.mean ==
        approx(static_cast<double>(result.batch_global)).epsilon(1e-6));
  CHECK(result.speedup == approx(result.efficiency * result.workers).epsilon(1e-9));
  if (result.job) {
    const JobPrediction& job = *result.job;
    const double parts = job.training + job.evaluation + job.checkpoint + job.startup + job.rescale +
                         job.input + job.logging + job.adaptation + job.failing;
    CHECK(parts == approx(job.time).epsilon(1e-6));
    CHECK(job.low <= job.time * (1 + rounding));
    CHECK(job.high >= job.time * (1 - rounding));
    std::int64_t updates = 0;
    for (const JobPhase& phase : job.phases) updates += phase.updates;
    CHECK(updates == job.updates);
  }
  ConsoleOptions options;
  options.style.width = 100;
  const std::string table = console_text({&result, 1}, options);
  CHECK_MESSAGE(table.find(format_time(step.time)) != std::string::npos, table);
}

}  // namespace foretrain::test
