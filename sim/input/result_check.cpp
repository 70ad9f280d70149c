#include "sim/input/result_check.hpp"

#include <fmt/format.h>

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
        report(pointer, fmt::format("'{}' is missing", key));
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

// The parts of the median step sum to it.
void check_sum(const Json& result, const std::string& pointer, Comparison& comparison) {
  const Json& step = result["step"];
  double sum = 0;
  for (const auto& [key, part] : step["breakdown_s"].items())
    sum += part.is_number() ? part.get<double>() : 0;
  const double whole = step["time_s"].is_number() ? step["time_s"].get<double>() : 0;
  if (std::fabs(sum - whole) > 1e-9 * std::fabs(whole)) {
    comparison.report(pointer + "/step/breakdown_s",
                      fmt::format("sums to {} s where time_s is {} s", sum, whole));
  }
}

}  // namespace

int check_result(std::string_view json, const std::string& file, Diagnostics& diagnostics) {
  Json root;
  try {
    root = Json::parse(json);
  } catch (const Json::exception& error) {
    diagnostics.error({file}, std::string("not valid JSON: ") + error.what());
    return 0;
  }
  if (!root.is_array()) root = Json::array({std::move(root)});
  Comparison comparison(file, diagnostics);
  for (std::size_t i = 0; i < root.size(); ++i) {
    const std::string pointer = root.size() == 1 ? "" : "/" + std::to_string(i);
    const std::size_t before = diagnostics.error_count();
    const auto schema = root[i].is_object() ? root[i].find("schema") : root[i].end();
    if (!root[i].is_object() || schema == root[i].end() || *schema != Result::schema) {
      comparison.report(pointer, fmt::format("\"schema\" is not \"{}\"", Result::schema));
      continue;
    }
    comparison.compare(root[i], complete_result(), pointer);
    if (diagnostics.error_count() == before) check_sum(root[i], pointer, comparison);
  }
  return static_cast<int>(root.size());
}

}  // namespace foretrain
