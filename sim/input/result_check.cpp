#include "sim/input/result_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "sim/base/spelling.hpp"
#include "sim/output/json.hpp"
#include "sim/output/result.hpp"

namespace foretrain {
namespace {

using Json = nlohmann::json;

// A result in which nothing is left out, as our writer writes it.
const Json& complete_result() {
  static const Json whole = [] {
    Result result;
    result.links.emplace_back();
    result.remedies.emplace_back();
    result.break_even.emplace();
    result.job.emplace();
    result.job->phases.emplace_back();
    result.job->speedup.emplace();
    result.job->target.emplace();
    result.job->failures.emplace();
    result.job->answers.emplace_back();
    result.job->progress.emplace_back();
    result.warnings.emplace_back();
    result.extrapolated.emplace_back();
    std::string text;
    write_json(std::span(&result, 1), [&](std::string_view piece) { text += piece; });
    return Json::parse(text);
  }();
  return whole;
}

class Comparison {
 public:
  Comparison(const std::string& file, Diagnostics& diagnostics) : file_(file), diagnostics_(diagnostics) {}

  void compare(const Json& value, const Json& model, const std::string& pointer) {
    if (pointer.ends_with("/inputs")) return;        // its members are the keys of the scenario
    if (value.is_null() || model.is_null()) return;  // not known or not asked for
    if (value.is_number() && model.is_number()) return;
    if (value.type() != model.type()) {
      return report(pointer, fmt::format("is {} where {} belongs", value.type_name(), model.type_name()));
    }
    if (value.is_object()) return compare_members(value, model, pointer);
    if (value.is_array() && !model.empty()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        compare(value[i], model[0], pointer + "/" + std::to_string(i));
      }
    }
  }

  void report(const std::string& pointer, const std::string& what) {
    diagnostics_.error({file_}, fmt::format("{}: {}", pointer.empty() ? "/" : pointer, what));
  }

 private:
  void compare_members(const Json& value, const Json& model, const std::string& pointer) {
    std::vector<std::string> known;
    for (const auto& [key, part] : model.items()) {
      known.push_back(key);
      const auto found = value.find(key);
      if (found == value.end()) {
        // Not in results of older versions, which the readers take as well.
        static constexpr std::array<std::string_view, 2> newer{"/kind", "/gpu/launching_s"};
        const std::string place = pointer + "/" + key;
        const bool is_new = std::any_of(newer.begin(), newer.end(), [&](std::string_view member) {
          return place.ends_with(member) && (member != "/kind" || model.contains("schema"));
        });
        if (!is_new) report(pointer, fmt::format("'{}' is missing", key));
      } else {
        compare(*found, part, pointer + "/" + key);
      }
    }
    for (const auto& [key, unused] : value.items()) {
      if (!model.contains(key)) {
        report(pointer, fmt::format("has the unknown member '{}'{}", key, did_you_mean(key, known)));
      }
    }
  }

  const std::string& file_;
  Diagnostics& diagnostics_;
};

void check_sum_of(const Json& result, const std::string& pointer, const std::string& file,
                  Diagnostics& diagnostics) {
  const Json& step = result["step"];
  double sum = 0;
  for (const auto& [key, part] : step["breakdown_s"].items())
    sum += part.is_number() ? part.get<double>() : 0;
  check_step_sum(sum, step["time_s"].is_number() ? step["time_s"].get<double>() : 0, pointer, file,
                 diagnostics);
}

// What a row of a sweep sets: a text for each path of "vary".
void check_setting(const Json& row, const Json& vary, const std::string& pointer, Comparison& comparison) {
  const auto set = row.find("set");
  if (set == row.end()) return comparison.report(pointer, "'set' is missing");
  Json model = Json::object();
  for (const Json& path : vary) model[path.get<std::string>()] = "";
  comparison.compare(*set, model, pointer + "/set");
}

bool has_our_schema(const Json& value) {
  const auto schema = value.is_object() ? value.find("schema") : value.end();
  return value.is_object() && schema != value.end() && *schema == Result::schema;
}

class ResultCheck {
 public:
  ResultCheck(const std::string& file, Diagnostics& diagnostics)
      : file_(file), diagnostics_(diagnostics), comparison_(file, diagnostics) {}

  void check_one(const Json& result, const std::string& pointer) {
    const std::size_t before = diagnostics_.error_count();
    if (!has_our_schema(result)) {
      return comparison_.report(pointer, fmt::format("\"schema\" is not \"{}\"", Result::schema));
    }
    comparison_.compare(result, complete_result(), pointer);
    if (diagnostics_.error_count() == before) check_sum_of(result, pointer, file_, diagnostics_);
  }

  // The rows are results with what they set. Returns their number.
  std::size_t check_sweep(const Json& sweep) {
    if (!has_our_schema(sweep)) {
      comparison_.report("", fmt::format("\"schema\" is not \"{}\"", Result::schema));
      return 0;
    }
    static const Json model{{"schema", ""},         {"version", ""},
                            {"scenario", ""},       {"seed", 0},
                            {"complete", true},     {"vary", Json::array({""})},
                            {"rows", Json::array()}};
    const std::size_t before = diagnostics_.error_count();
    comparison_.compare(sweep, model, "");
    if (diagnostics_.error_count() != before || !sweep["vary"].is_array()) return 0;
    const Json& rows = sweep["rows"];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string pointer = fmt::format("/rows/{}", i);
      Json row = rows[i];
      if (row.is_object()) {
        check_setting(row, sweep["vary"], pointer, comparison_);
        row.erase("set");
      }
      check_one(row, pointer);
    }
    return rows.size();
  }

 private:
  const std::string& file_;
  Diagnostics& diagnostics_;
  Comparison comparison_;
};

}  // namespace

void check_step_sum(double sum, double whole, const std::string& pointer, const std::string& file,
                    Diagnostics& diagnostics) {
  if (whole < 0) {
    diagnostics.error({file}, fmt::format("{}/step/time_s: is negative: {} s", pointer, whole));
  } else if (!(std::fabs(sum - whole) <= 1e-9 * std::fabs(whole))) {
    diagnostics.error(
        {file}, fmt::format("{}/step/breakdown_s: sums to {} s where time_s is {} s", pointer, sum, whole));
  }
}

int check_result(std::string_view json, const std::string& file, Diagnostics& diagnostics) {
  Json root;
  try {
    root = Json::parse(json);
  } catch (const Json::exception& error) {
    diagnostics.error({file}, std::string("not valid JSON: ") + error.what());
    return 0;
  }
  ResultCheck check(file, diagnostics);
  if (root.is_object() && root.contains("rows")) return static_cast<int>(check.check_sweep(root));
  if (!root.is_array()) root = Json::array({std::move(root)});
  for (std::size_t i = 0; i < root.size(); ++i) {
    check.check_one(root[i], root.size() == 1 ? "" : "/" + std::to_string(i));
  }
  return static_cast<int>(root.size());
}

}  // namespace foretrain
