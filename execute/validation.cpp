#include "execute/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "execute/job_validation.hpp"
#include "sim/base/quantile.hpp"
#include "sim/base/sha256.hpp"

namespace foretrain {
namespace {

constexpr double noisy_spread = 0.02;

// Repeats of one row agree in all of this.
std::string key_of(const RunRecord& r) {
  std::string key =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", r.scenario_name, r.group, r.source,
                  r.model, name_of(r.precision), r.strategy, r.batch_per_worker, r.sequence, r.workers,
                  r.nodes, r.network, r.profile_digest, r.machine.identity);
  for (const std::string& text : r.overrides) key += '\n' + text;
  return key;
}

// The measured one-worker step that is nearest in kind: of the same machine before others, of the same source
// before others.
std::optional<double> measured_one_worker(const RunRecord& of, std::span<const FiledRecord> records) {
  std::vector<double> best;
  int best_rank = -1;
  for (const FiledRecord& each : records) {
    const RunRecord& r = each.record;
    const bool same_work = r.workers == 1 && r.model == of.model && r.precision == of.precision &&
                           r.batch_per_worker == of.batch_per_worker && r.sequence == of.sequence;
    const MeasuredStep step = measured_step(r);
    if (!same_work || step.steps == 0) continue;
    const int rank = (r.machine.identity == of.machine.identity ? 4 : 0) + (r.source == of.source ? 2 : 0) +
                     (r.machine.gpu == of.machine.gpu ? 1 : 0);
    if (rank < best_rank) continue;
    if (rank > best_rank) best.clear();
    best_rank = rank;
    best.push_back(step.median);
  }
  if (best.empty()) return std::nullopt;
  return median(best);
}

double bytes_of_parameters(const RunRecord& record) {
  double elements = 0;
  for (const ParameterRecord& parameter : record.parameters) {
    double each = 1;
    for (const std::int64_t size : parameter.shape) each *= static_cast<double>(size);
    elements += each;
  }
  constexpr double fp32_bytes = 4;  // gradients, by default
  return elements * fp32_bytes;
}

void add_naive(const RunRecord& record, std::span<const FiledRecord> records, ValidationRow& row) {
  if (row.workers < 2) return;
  std::optional<double> one = measured_one_worker(record, records);
  if (!one && record.prediction && record.prediction->one_worker_step > 0) {
    one = record.prediction->one_worker_step;
    row.notes.emplace_back("naive: no measured step of one worker, the predicted one stands in");
  }
  const double bytes = row.now.gradient_bytes > 0 ? row.now.gradient_bytes : bytes_of_parameters(record);
  const double rate = record.line_rate > 0 ? record.line_rate : row.now.slowest_link;
  if (!one || bytes <= 0 || rate <= 0) return;
  row.naive = naive_step(*one, row.strategy == "independent" ? 0 : bytes, row.workers, rate);
}

void add_memory(const RunRecord& record, ValidationRow& row) {
  // The prediction is of the first phase, the peak of all.
  const auto phases = std::count_if(record.events.begin(), record.events.end(),
                                    [](const RunEvent& event) { return event.what == "phase"; });
  if (phases > 1) return;
  double peak = 0;
  for (const RankRecord& rank : record.ranks) peak = std::max(peak, rank.peak_bytes);
  if (peak > 0 && record.prediction && record.prediction->peak_bytes > 0) {
    row.memory_error = record.prediction->peak_bytes / peak - 1;
  }
}

void set_clocks(std::span<const FiledRecord* const> repeats, ValidationRow& row) {
  std::vector<double> clocks, throttled;
  for (const FiledRecord* repeat : repeats) {
    const auto& devices = repeat->record.clocks;
    const auto slowest =
        std::min_element(devices.begin(), devices.end(),
                         [](const ClockRecord& a, const ClockRecord& b) { return a.sm_hz < b.sm_hz; });
    if (slowest == devices.end() || slowest->sm_max_hz <= 0) continue;
    clocks.push_back(slowest->sm_hz / slowest->sm_max_hz);
    throttled.push_back(slowest->throttled);
    constexpr double worth_telling = 0.05;
    if (slowest->throttled > worth_telling) row.notes.push_back("clock held back: " + clock_text(*slowest));
  }
  if (clocks.empty()) return;
  row.clock = median(clocks);
  row.throttled = median(throttled);
}

// What was hashed counts: numbers beside it in the record may have been written later.
void hold_to_text(const PredictionBefore& before, ValidationRow& row) {
  const nlohmann::json text = nlohmann::json::parse(before.json, nullptr, false);
  const auto number = [&](const char* name) -> std::optional<double> {
    if (!text.is_object() || !text.contains("step") || !text["step"].is_object()) return std::nullopt;
    const auto found = text["step"].find(name);
    return found == text["step"].end() || !found->is_number() ? std::nullopt
                                                              : std::optional(found->get<double>());
  };
  const std::optional<double> step = number("time_s"), low = number("low_s"), high = number("high_s");
  if (!step || !low || !high) {
    row.notes.emplace_back("the prediction that was hashed before the run tells no step");
    return;
  }
  constexpr double rounding = 1e-6;  // relative
  const auto differs = [&](double a, double b) { return std::abs(a - b) > rounding * std::abs(b); };
  if (!differs(before.step, *step) && !differs(before.low, *low) && !differs(before.high, *high)) return;
  row.notes.emplace_back(
      "the record's prediction is not the one that was hashed before the run, which is taken");
  row.predicted_before = *step;
  row.low = *low;
  row.high = *high;
}

ValidationRow row_of(std::span<const FiledRecord* const> repeats, std::span<const FiledRecord> records,
                     const Repredict& repredict) {
  const FiledRecord& first = *repeats[0];
  const RunRecord& record = first.record;
  ValidationRow row;
  row.scenario = record.scenario_name.empty() ? record.model : record.scenario_name;
  row.group = record.group;
  row.model = record.model;
  row.strategy = record.strategy;
  row.precision = record.precision;
  row.batch_per_worker = record.batch_per_worker;
  row.workers = record.workers;
  row.nodes = record.nodes;
  row.network = record.network;

  std::vector<double> medians, p05, p95;
  for (const FiledRecord* repeat : repeats) {
    const MeasuredStep step = measured_step(repeat->record);
    medians.push_back(step.median);
    p05.push_back(step.p05);
    p95.push_back(step.p95);
    row.steps += step.steps;
    if (!repeat->record.complete) row.notes.push_back(repeat->file + ": the run was interrupted");
  }
  row.repeats = static_cast<int>(repeats.size());
  row.measured = median(medians);
  row.measured_p05 = median(p05);
  row.measured_p95 = median(p95);
  const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
  row.repeat_spread = row.measured > 0 ? (*most - *least) / row.measured : 0;

  set_clocks(repeats, row);

  row.now = repredict(first);
  row.predicted = row.now.step;
  if (!row.now.problem.empty()) row.notes.push_back("not predicted now: " + row.now.problem);
  if (!row.now.caveat.empty()) row.notes.push_back(row.now.caveat);
  if (record.prediction) {
    const PredictionBefore& before = *record.prediction;
    row.predicted_before = before.step;
    row.low = before.low;
    row.high = before.high;
    row.distance = before.distance;
    if (!before.digest.empty() && before.digest != sha256(before.json)) {
      row.notes.emplace_back("the stored prediction is not the one that was hashed before the run");
    } else if (!before.digest.empty()) {
      hold_to_text(before, row);
    }
  } else if (row.predicted) {
    row.low = row.now.low;
    row.high = row.now.high;
    row.distance = row.now.distance;
    row.notes.emplace_back("predicted after the run only");
  }
  const std::optional<double> predicted = row.predicted_before ? row.predicted_before : row.predicted;
  if (predicted && row.measured > 0) {
    row.error = *predicted / row.measured - 1;
    row.hit = *row.low <= row.measured && row.measured <= *row.high;
  }
  add_naive(record, records, row);
  add_memory(record, row);
  if (row.noisy()) row.group = "noisy";
  return row;
}

struct Judged {
  const ValidationRow* row;
  double predicted, low, high;
};

std::optional<Judged> judged_before(const ValidationRow& row) {
  if (!row.error) return std::nullopt;
  return Judged{&row, row.predicted_before ? *row.predicted_before : *row.predicted, *row.low, *row.high};
}

std::optional<Judged> judged_now(const ValidationRow& row) {
  if (!row.now.step || row.measured <= 0) return std::nullopt;
  return Judged{&row, *row.now.step, row.now.low.value_or(*row.now.step),
                row.now.high.value_or(*row.now.step)};
}

// `count_noisy`: in the summary of the noisy group itself their errors are shown.
ErrorSummary summarize_rows(const std::vector<Judged>& all, bool count_noisy = false) {
  ErrorSummary out;
  std::vector<double> widths;
  double naive_sum = 0, ours_sum = 0;
  int hits = 0, naive_rows = 0;
  for (const Judged& each : all) {
    const double measured = each.row->measured;
    hits += each.low <= measured && measured <= each.high;
    if (each.row->noisy() && !count_noisy) continue;
    ++out.rows;
    const double error = each.predicted / measured - 1;
    out.mean_error += error;
    out.mean_abs_error += std::abs(error);
    out.max_abs_error = std::max(out.max_abs_error, std::abs(error));
    widths.push_back((each.high - each.low) / each.predicted);
    if (each.row->naive) {
      ++naive_rows;
      naive_sum += std::abs(*each.row->naive / measured - 1);
      ours_sum += std::abs(error);
    }
  }
  if (!all.empty()) out.coverage = static_cast<double>(hits) / static_cast<double>(all.size());
  if (out.rows > 0) {
    out.mean_error /= out.rows;
    out.mean_abs_error /= out.rows;
    out.interval_width = median(widths);
  }
  if (naive_rows > 0) {
    out.naive_mean_abs_error = naive_sum / naive_rows;
    if (naive_sum > 0) out.skill = 1 - ours_sum / naive_sum;
  }
  return out;
}

using Judge = std::optional<Judged> (*)(const ValidationRow&);
using Names = std::vector<std::string>;

// A row counts under each of its names.
std::vector<NamedSummary> summarize_by(const std::vector<ValidationRow>& rows, Judge judge,
                                       const std::function<Names(const ValidationRow&)>& names) {
  std::map<std::string, std::vector<Judged>> parts;
  for (const ValidationRow& row : rows) {
    if (const auto judged = judge(row)) {
      for (const std::string& name : names(row)) parts[name].push_back(*judged);
    }
  }
  std::vector<NamedSummary> out;
  for (const auto& [name, part] : parts) {
    const ErrorSummary summary = summarize_rows(part, name == "noisy");
    if (summary.rows > 0) out.push_back({name, summary});
  }
  std::stable_sort(out.begin(), out.end(), [](const NamedSummary& a, const NamedSummary& b) {
    return a.summary.mean_abs_error > b.summary.mean_abs_error;
  });
  return out;
}

ErrorSummary summarize_all(const std::vector<ValidationRow>& rows, Judge judge) {
  std::vector<Judged> all;
  for (const ValidationRow& row : rows) {
    if (const auto judged = judge(row)) all.push_back(*judged);
  }
  return summarize_rows(all);
}

Names or_in_sample(const Names& distance) {
  return distance.empty() ? Names{"in_sample"} : distance;
}

// Files from which others of the records took the costs of their job, by name: both lie in one folder.
std::set<std::filesystem::path> costs_files(std::span<const FiledRecord> records) {
  std::set<std::filesystem::path> files;
  for (const FiledRecord& each : records) {
    constexpr std::string_view option = "--costs-from ";
    const std::string& command = each.record.command;
    std::size_t begin = command.find(option);
    if (begin == std::string::npos) continue;
    begin += option.size();
    const bool is_quoted = begin < command.size() && command[begin] == '\'';
    begin += is_quoted ? 1 : 0;
    const std::size_t end = std::min(command.find(is_quoted ? '\'' : ' ', begin), command.size());
    const std::filesystem::path costs = command.substr(begin, end - begin);
    files.insert(std::filesystem::path(each.file).parent_path() / costs.filename());
  }
  return files;
}

}  // namespace

bool ValidationRow::noisy() const {
  return repeat_spread > noisy_spread;
}

double naive_step(double one_worker_step, double gradient_bytes, int workers, double line_rate) {
  const double ring_bytes = 2.0 * (workers - 1) / workers * gradient_bytes;
  return one_worker_step / 3 + std::max(2.0 / 3 * one_worker_step, ring_bytes / line_rate);
}

Validation validate_records(std::span<const FiledRecord> records, const Repredict& repredict,
                            std::vector<std::string>& skipped) {
  std::map<std::string, std::vector<const FiledRecord*>> joined;
  const std::set<std::filesystem::path> costs = costs_files(records);
  for (const FiledRecord& each : records) {
    if (costs.contains(each.file)) {
      skipped.push_back(each.file + ": measured the costs with which other jobs were predicted");
      continue;
    }
    if (measured_step(each.record).steps == 0) {
      skipped.push_back(each.file + ": has no counted step");
      continue;
    }
    joined[key_of(each.record)].push_back(&each);
  }
  Validation out;
  std::map<const FiledRecord*, Reprediction> predictions;
  const auto remembered = [&](const FiledRecord& filed) {
    const auto [found, is_new] = predictions.try_emplace(&filed);
    if (is_new) found->second = repredict(filed);
    return found->second;
  };
  for (auto& [key, repeats] : joined) {
    std::stable_sort(repeats.begin(), repeats.end(), [](const FiledRecord* a, const FiledRecord* b) {
      return std::tie(a->record.repeat, a->file) < std::tie(b->record.repeat, b->file);
    });
    out.rows.push_back(row_of(repeats, records, remembered));
  }
  for (const FiledRecord& each : records) {
    if (costs.contains(each.file)) continue;
    if (auto row = job_row(each, remembered)) out.jobs.push_back(std::move(*row));
  }
  std::stable_sort(out.rows.begin(), out.rows.end(), [](const ValidationRow& a, const ValidationRow& b) {
    const double a_error = a.error ? std::abs(*a.error) : -1, b_error = b.error ? std::abs(*b.error) : -1;
    return a_error != b_error ? a_error > b_error : a.scenario < b.scenario;
  });

  out.summary = summarize_all(out.rows, judged_before);
  out.groups = summarize_by(out.rows, judged_before, [](const ValidationRow& row) {
    return Names{row.group.empty() ? "ungrouped" : row.group};
  });
  out.by_distance = summarize_by(out.rows, judged_before,
                                 [](const ValidationRow& row) { return or_in_sample(row.distance); });
  out.by_kind = summarize_by(out.rows, judged_before, [](const ValidationRow& row) {
    return row.now.kind.empty() ? Names{} : Names{row.now.kind};
  });
  out.now = summarize_all(out.rows, judged_now);
  out.now_by_distance = summarize_by(out.rows, judged_now,
                                     [](const ValidationRow& row) { return or_in_sample(row.now.distance); });

  double memory_sum = 0, memory_most = 0;
  int memory_rows = 0;
  for (const ValidationRow& row : out.rows) {
    if (!row.memory_error) continue;
    ++memory_rows;
    memory_sum += std::abs(*row.memory_error);
    memory_most = std::max(memory_most, std::abs(*row.memory_error));
  }
  if (memory_rows > 0) {
    out.memory_mean_abs_error = memory_sum / memory_rows;
    out.memory_max_abs_error = memory_most;
  }
  return out;
}

}  // namespace foretrain
