#include "sim/output/result_reader.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/input/result_check.hpp"
#include "sim/output/sweep.hpp"

namespace foretrain {
namespace {

using nlohmann::ordered_json;

// A member of the result with the way to it, for messages.
class Node {
 public:
  Node(const ordered_json& json, std::string path, const std::string& file)
      : json_(json), path_(std::move(path)), file_(file) {}

  Node at(const char* name) const {
    const auto found = json_.is_object() ? json_.find(name) : json_.end();
    if (found == json_.end()) refuse(fmt::format("has no '{}'", path_.empty() ? name : path_ + '.' + name));
    return {*found, path_.empty() ? name : path_ + '.' + name, file_};
  }
  bool has(const char* name) const { return json_.is_object() && json_.contains(name); }
  bool is_null() const { return json_.is_null(); }
  double number() const {
    if (!json_.is_number()) refuse(fmt::format("'{}' is no number", path_));
    return json_.get<double>();
  }
  double number_or_zero() const { return is_null() ? 0 : number(); }
  template <class Integer>
  Integer integer() const {
    if (!json_.is_number_integer()) refuse(fmt::format("'{}' is no whole number", path_));
    return json_.get<Integer>();
  }
  std::string text() const {
    if (!json_.is_string()) refuse(fmt::format("'{}' is no text", path_));
    return json_.get<std::string>();
  }
  std::string text_or_empty() const { return is_null() ? "" : text(); }
  bool flag() const {
    if (!json_.is_boolean()) refuse(fmt::format("'{}' is neither true nor false", path_));
    return json_.get<bool>();
  }
  std::vector<Node> items() const {
    if (!json_.is_array()) refuse(fmt::format("'{}' is no list", path_));
    std::vector<Node> nodes;
    for (std::size_t i = 0; i < json_.size(); ++i)
      nodes.emplace_back(json_[i], fmt::format("{}.{}", path_, i), file_);
    return nodes;
  }
  std::vector<std::pair<std::string, Node>> members() const {
    if (!json_.is_object()) refuse(fmt::format("'{}' is no object", path_));
    std::vector<std::pair<std::string, Node>> nodes;
    for (const auto& [key, value] : json_.items())
      nodes.emplace_back(key, Node(value, path_ + '.' + key, file_));
    return nodes;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error({{{file_, 0, 0}, "the result " + what}});
  }

  const ordered_json& json_;
  std::string path_;
  const std::string& file_;
};

Origin origin_of(const std::string& name) {
  for (const Origin origin : {Origin::measured, Origin::fitted}) {
    if (name == name_of(origin)) return origin;
  }
  return Origin::assumed;
}

StepPrediction step_of(const Node& node) {
  const Node breakdown = node.at("breakdown_s");
  StepPrediction step;
  step.time = node.at("time_s").number();
  step.mean = node.at("mean_s").number();
  step.p05 = node.at("p05_s").number();
  step.p50 = node.at("p50_s").number();
  step.p95 = node.at("p95_s").number();
  step.low = node.at("low_s").number();
  step.high = node.at("high_s").number();
  step.breakdown.forward = breakdown.at("forward").number();
  step.breakdown.backward = breakdown.at("backward").number();
  step.breakdown.optimizer = breakdown.at("optimizer").number();
  step.breakdown.exposed_communication = breakdown.at("exposed_communication").number();
  step.breakdown.waiting = breakdown.at("waiting").number();
  step.breakdown.host = breakdown.at("host").number();
  step.breakdown.input = breakdown.at("input").number();
  return step;
}

Memory memory_of(const Node& node) {
  Memory memory;
  memory.peak = node.at("peak_bytes_per_gpu").number_or_zero();
  memory.parameters = node.at("parameters").number();
  memory.gradients = node.at("gradients").number();
  memory.optimizer = node.at("optimizer").number();
  memory.activations = node.at("activations").number_or_zero();
  memory.workspace = node.at("workspace").number();
  memory.buckets = node.at("buckets").number();
  memory.capacity = node.at("capacity_bytes").number_or_zero();
  memory.fits = node.at("fits").is_null() || node.at("fits").flag();
  return memory;
}

void read_job_answers(const Node& node, JobPrediction& job) {
  if (const Node from = node.at("speedup"); !from.is_null()) {
    job.speedup = JobSpeedup{from.at("baseline").text(),
                             from.at("time").number(),
                             from.at("updates").number(),
                             from.at("gpu_hours").number(),
                             {}};
    if (!from.at("cost").is_null()) job.speedup->cost = from.at("cost").number();
  }
  if (const Node from = node.at("target"); !from.is_null()) {
    job.target = JobTarget{from.at("what").text(),
                           from.at("value").number(),
                           from.at("reached").flag(),
                           from.at("updates").number_or_zero(),
                           from.at("time_s").number_or_zero(),
                           from.at("low_s").number_or_zero(),
                           from.at("high_s").number_or_zero(),
                           from.at("runs").integer<int>()};
  }
  if (const Node from = node.at("failures"); !from.is_null()) {
    job.failures = JobFailures{from.at("count").number(), from.at("lost_s").number(),
                               from.at("restarting_s").number(), from.at("draws").integer<int>()};
  }
  job.checkpoint_bytes = node.at("checkpoint_bytes").number_or_zero();
  job.samples_law = node.at("samples_law").text_or_empty();
  job.origin = origin_of(node.at("origin").text());
  job.assumption = node.at("assumption").text_or_empty();
  for (const Node& answer : node.at("answers").items()) job.answers.push_back(answer.text());
  for (const Node& from : node.at("progress").items()) {
    JobPoint point{from.at("time_s").number(),
                   from.at("epochs").number(),
                   from.at("updates").integer<std::int64_t>(),
                   from.at("batch").integer<std::int64_t>(),
                   from.at("workers").integer<int>(),
                   from.at("learning_rate").number(),
                   {}};
    if (!from.at("value").is_null()) point.value = from.at("value").number();
    job.progress.push_back(point);
  }
}

JobPrediction job_of(const Node& node) {
  const Node parts = node.at("parts_s");
  JobPrediction job;
  job.time = node.at("time_s").number();
  job.low = node.at("low_s").number();
  job.high = node.at("high_s").number();
  job.updates = node.at("updates").integer<std::int64_t>();
  job.epochs = node.at("epochs").number();
  job.samples = node.at("samples").number();
  job.gpu_hours = node.at("gpu_hours").number();
  if (!node.at("cost").is_null()) job.cost = node.at("cost").number();
  job.currency = node.at("currency").text_or_empty();
  job.price_date = node.at("price_date").text_or_empty();
  if (!node.at("energy_J").is_null()) job.energy = node.at("energy_J").number();
  job.training = parts.at("training").number();
  job.evaluation = parts.at("evaluation").number();
  job.checkpoint = parts.at("checkpoint").number();
  job.startup = parts.at("startup").number();
  job.rescale = parts.at("rescale").number();
  job.input = parts.at("input").number();
  job.logging = parts.at("logging").number();
  job.adaptation = parts.at("adaptation").number();
  job.failing = parts.at("failures").number();
  for (const Node& phase : node.at("phases").items()) {
    job.phases.push_back({phase.at("epochs").number(), phase.at("batch").integer<std::int64_t>(),
                          phase.at("workers").integer<int>(), phase.at("step_s").number(),
                          phase.at("updates").integer<std::int64_t>(), phase.at("time_s").number(),
                          phase.at("samples").number(), phase.at("learning_rate").number(),
                          phase.at("learning_rate_end").number()});
  }
  read_job_answers(node, job);
  return job;
}

void read_communication(const Node& node, Result& result) {
  const Node communication = node.at("communication");
  result.communication = {communication.at("bytes_per_worker").number(),
                          communication.at("collectives").integer<int>(), communication.at("busy_s").number(),
                          communication.at("exposed_s").number(), communication.at("overlap").number()};
  for (const Node& link : node.at("links").items()) {
    result.links.push_back({link.at("name").text(), link.at("count").integer<std::int64_t>(),
                            link.at("bandwidth_Bps").number(), link.at("bytes_per_step").number(),
                            link.at("utilisation").number()});
  }
}

void read_advice(const Node& node, Result& result) {
  const Node limiting = node.at("limiting");
  result.limiting = {limiting.at("kind").text(), limiting.at("link").text_or_empty(),
                     limiting.at("text").text()};
  for (const Node& remedy : node.at("remedies").items()) {
    result.remedies.push_back({remedy.at("change").text(), remedy.at("step_s").number(),
                               remedy.at("speedup").number(), remedy.at("cost").text()});
  }
  if (const Node even = node.at("break_even"); !even.is_null()) {
    result.break_even = BreakEven{even.at("bandwidth_Bps_next_node").number_or_zero(),
                                  even.at("bandwidth_Bps_hidden").number_or_zero()};
  }
  if (node.has("sensitivity")) {  // not in results of older versions
    for (const Node& one : node.at("sensitivity").items()) {
      result.sensitivity.push_back({one.at("input").text(), one.at("change").text(),
                                    one.at("step_s").number(), one.at("speedup").number(),
                                    one.at("critical").flag()});
    }
  }
  if (node.has("sequences") && !node.at("sequences").is_null()) {  // not in results of older versions
    const Node use = node.at("sequences");
    result.sequences = SequenceUse{use.at("batching").text(),
                                   use.at("useful_length").number(),
                                   use.at("row_length").number(),
                                   use.at("padding").number(),
                                   use.at("useful_units_per_s").number(),
                                   use.at("padded_units_per_s").number(),
                                   use.at("waiting_s").number()};
  }
  for (const Node& warning : node.at("warnings").items()) result.warnings.push_back(warning.text());
  for (const Node& one : node.at("extrapolated").items()) {
    result.extrapolated.push_back({one.at("what").text(), one.at("asked").text(), one.at("range").text()});
  }
}

Result result_of(const Node& node) {
  Result result;
  result.scenario = node.at("scenario").text();
  result.question = node.at("question").text_or_empty();
  result.model = node.at("model").text();
  result.profile = node.at("profile").text();
  result.precision = node.at("precision").text();
  result.strategy = node.at("strategy").text();
  result.topology = node.at("topology").text();
  if (node.has("kind")) result.kind = node.at("kind").text_or_empty();  // not in results of older versions
  result.seed = node.at("seed").integer<std::uint64_t>();
  result.complete = node.at("complete").flag();
  for (const auto& [path, input] : node.at("inputs").members()) {
    result.inputs.push_back(
        {path, input.at("value").text(), origin_of(input.at("origin").text()), input.at("default").flag()});
  }
  result.workers = node.at("workers").integer<int>();
  result.nodes = node.at("nodes").integer<int>();
  result.batch_global = node.at("batch").at("global").integer<std::int64_t>();
  result.batch_per_worker = node.at("batch").at("per_worker").integer<std::int64_t>();
  result.step = step_of(node.at("step"));
  result.samples_per_second = node.at("throughput").at("samples_per_s").number();
  result.unit = node.at("throughput").at("unit").text();
  result.units_per_second = node.at("throughput").at("units_per_s").number();
  result.speedup = node.at("scaling").at("speedup").number();
  result.efficiency = node.at("scaling").at("efficiency").number();
  result.baseline_workers = node.at("scaling").at("baseline_workers").integer<int>();
  read_communication(node, result);
  read_advice(node, result);
  const Node gpu = node.at("gpu");
  result.gpu = {gpu.at("busy").number(), gpu.at("computing").number(), gpu.at("communicating").number(),
                gpu.at("launches").number_or_zero()};
  if (gpu.has("launching_s")) result.gpu.launching = gpu.at("launching_s").number_or_zero();
  result.memory = memory_of(node.at("memory"));
  if (const Node job = node.at("job"); !job.is_null()) result.job = job_of(job);
  return result;
}

// What tells a row of a sweep from the others: " (nodes=4 bandwidth=25 Gbit/s)".
std::string setting_text(const Node& set) {
  std::vector<std::string> paths, values;
  for (const auto& [path, value] : set.members()) {
    paths.push_back(path);
    values.push_back(value.text());
  }
  const std::vector<std::string> names = short_names(paths);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? " (" : " ") + names[i] + '=' + values[i];
  return text.empty() ? text : text + ')';
}

}  // namespace

std::vector<Result> read_results(std::string_view text, const std::string& file) {
  return read_results_of(text, file).results;
}

ReadResults read_results_of(std::string_view text, const std::string& file) {
  // Input from elsewhere may nest as deep as it likes; ours does not.
  constexpr int deepest = 64;
  bool too_deep = false;
  const ordered_json json = ordered_json::parse(
      text,
      [&](int depth, ordered_json::parse_event_t, ordered_json&) {
        too_deep = too_deep || depth > deepest;
        return depth <= deepest;
      },
      false);
  if (json.is_discarded() || too_deep) throw Error({{{file, 0, 0}, "no JSON that can be read as a result"}});
  const bool is_sweep = json.is_object() && json.contains("rows");
  const ordered_json list = is_sweep ? json["rows"] : json.is_array() ? json : ordered_json::array({json});
  ReadResults out;
  Diagnostics diagnostics;
  out.file = file;
  std::vector<Result>& results = out.results;
  const bool is_part = is_sweep && json.contains("part");
  if (is_part) out.of = Node(json, "", file).at("part").at("points").integer<std::size_t>();
  for (const ordered_json& each : list) {
    const Node node(each, "", file);
    if (is_part) out.points.push_back(node.at("point").integer<std::size_t>());
    if (const std::string schema = node.at("schema").text(); schema != Result::schema) {
      throw Error(
          {{{file, 0, 0}, fmt::format("is of schema '{}', a result is of '{}'", schema, Result::schema)}});
    }
    const std::string at = (is_sweep ? "/rows/" : "/") + std::to_string(results.size());
    results.push_back(result_of(node));
    const StepPrediction& step = results.back().step;
    check_step_sum(step.breakdown.total(), step.time, is_sweep || list.size() > 1 ? at : "", file,
                   diagnostics);
    if (is_sweep && each.contains("set")) results.back().scenario += setting_text(node.at("set"));
  }
  if (results.empty()) throw Error({{{file, 0, 0}, "holds no result"}});
  diagnostics.throw_errors();
  return out;
}

std::vector<Result> joined_results(std::vector<ReadResults> files, std::vector<std::string>& notes) {
  std::vector<Result> all;
  std::vector<bool> is_taken(files.size(), false);
  for (std::size_t f = 0; f < files.size(); ++f) {
    if (is_taken[f]) continue;
    if (files[f].of == 0) {
      for (Result& result : files[f].results) all.push_back(std::move(result));
      continue;
    }
    // All parts of a grid of that many points, beginning with this one.
    const std::size_t of = files[f].of;
    std::map<std::size_t, Result*> points;
    for (std::size_t g = f; g < files.size(); ++g) {
      if (files[g].of != of) continue;
      is_taken[g] = true;
      for (std::size_t i = 0; i < files[g].results.size(); ++i)
        points.emplace(files[g].points[i], &files[g].results[i]);
    }
    for (const auto& [point, result] : points) all.push_back(std::move(*result));
    if (points.size() < of)
      notes.push_back(
          fmt::format("{} of the grid's {} points are in none of its parts", of - points.size(), of));
  }
  return all;
}

}  // namespace foretrain
