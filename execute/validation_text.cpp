#include "execute/validation_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "sim/output/csv.hpp"

namespace foretrain {
namespace {

void member(JsonWriter& json, const char* name, const std::vector<std::string>& values) {
  json.key(name);
  json.begin_array();
  for (const std::string& value : values) json.value(value);
  json.end_array();
}

void write_row(JsonWriter& json, const ValidationRow& row) {
  json.begin_object();
  json.member("scenario", row.scenario);
  json.member("group", row.group);
  json.member("model", row.model);
  json.member("precision", name_of(row.precision));
  json.member("batch_per_worker", row.batch_per_worker);
  json.member("workers", row.workers);
  json.member("nodes", row.nodes);
  json.member("network", row.network);
  json.member("kind", row.now.kind.empty() ? std::nullopt : std::optional(row.now.kind));
  json.member("measured_s", row.measured);
  json.member("measured_p05_s", row.measured_p05);
  json.member("measured_p95_s", row.measured_p95);
  json.member("repeat_spread", row.repeat_spread);
  json.member("predicted_before_s", row.predicted_before);
  json.member("predicted_s", row.predicted);
  json.member("low_s", row.low);
  json.member("high_s", row.high);
  json.member("naive_s", row.naive);
  json.member("error", row.error);
  json.member("hit", row.hit);
  json.member("clock", row.clock);
  json.member("throttled", row.throttled);
  member(json, "distance", row.distance);
  json.end_object();
}

void write_summary(JsonWriter& json, const ErrorSummary& summary) {
  json.begin_object();
  json.member("rows", summary.rows);
  json.member("mean_abs_error", summary.mean_abs_error);
  json.member("max_abs_error", summary.max_abs_error);
  json.member("mean_error", summary.mean_error);
  json.member("coverage", summary.coverage);
  json.member("interval_width", summary.interval_width);
  json.member("naive_mean_abs_error", summary.naive_mean_abs_error);
  json.member("skill", summary.skill);
  json.end_object();
}

void write_parts(JsonWriter& json, const char* name, const std::vector<NamedSummary>& parts) {
  json.key(name);
  json.begin_object();
  for (const NamedSummary& part : parts) {
    json.key(part.name);
    write_summary(json, part.summary);
  }
  json.end_object();
}

std::string cell(const std::optional<double>& value) {
  return value ? shortest(*value) : "";
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// "31.2 ms", "4.02 s": three digits and a half.
std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  const double ms = seconds * 1e3;
  return fmt::format("{:.{}f} ms", ms, ms < 10 ? 3 : ms < 100 ? 2 : 1);
}

std::string optional_time(const std::optional<double>& seconds) {
  return seconds ? time_text(*seconds) : "-";
}

std::string signed_percent(const std::optional<double>& fraction) {
  return fraction ? fmt::format("{:+.2f} %", *fraction * 100) : "-";
}

std::string percent(double fraction) {
  return fmt::format("{:.2f} %", fraction * 100);
}

std::string hit_text(const ValidationRow& row) {
  if (!row.hit) return "-";
  if (*row.hit) return "hit";
  return row.measured < *row.low ? "below" : "above";
}

// "64", "64 pad_batch".
std::string batch_text(const ValidationRow& row) {
  return std::to_string(row.batch_per_worker) + (row.now.how.empty() ? "" : " " + row.now.how);
}

std::string network_text(const ValidationRow& row) {
  const std::string network = row.network.empty() ? "-" : row.network;
  return row.nodes > 1 ? fmt::format("{} nodes, {}", row.nodes, network) : network;
}

// Of a table, by its heading.
bool is_wider(const std::string& table, int width) {
  return display_width(table.substr(0, table.find('\n'))) > width;
}

// "ethernet 10 Gbit/s tcp" on two nodes: "2 x 10 Gbit/s".
std::string short_network_text(const ValidationRow& row) {
  if (row.nodes < 2) return row.network.empty() ? "-" : row.network;
  std::istringstream words(row.network);
  std::string before, word;
  while (words >> word && word.find("bit/s") == std::string::npos) before = word;
  return fmt::format("{} x {}", row.nodes,
                     word.find("bit/s") == std::string::npos ? row.network : before + ' ' + word);
}

// What a terminal of 80 columns has room for.
std::string narrow_rows_table(const std::vector<ValidationRow>& rows, int width) {
  using Align = TextTable::Align;
  TextTable table({Align::left, Align::left, Align::right, Align::right, Align::right, Align::left});
  table.add({"model, batch, strategy, GPUs", "network", "measured", "error", "now", ""});
  bool any_noisy = false;
  for (const ValidationRow& row : rows) {
    std::optional<double> now;
    if (row.now.step && row.measured > 0) now = *row.now.step / row.measured - 1;
    any_noisy |= row.noisy();
    const auto brief = [](const std::optional<double>& error) {
      return error ? fmt::format("{:+.1f} %", *error * 100) : "-";
    };
    const std::string mark = !row.hit || *row.hit ? "" : hit_text(row);
    table.add({fmt::format("{} {} {} x{}", row.model, batch_text(row),
                           row.strategy == "parameter_server" ? "server" : row.strategy, row.workers),
               short_network_text(row), time_text(row.measured), brief(row.error), brief(now),
               mark + (row.noisy() ? "~" : "")});
  }
  std::string out = table.text("", width, 0);
  out += wrapped("above, below: the measured median lies there of the 90 % interval", width, "", "  ");
  if (any_noisy) out += wrapped("~: repeats differ so much that the row is shown apart", width, "", "  ");
  out += wrapped("all columns: a wider terminal, --csv or --json", width, "", "  ");
  return out;
}

std::string rows_table(const std::vector<ValidationRow>& rows, int width) {
  using Align = TextTable::Align;
  TextTable table({Align::left, Align::left, Align::right, Align::right, Align::left, Align::left,
                   Align::right, Align::right, Align::right, Align::right, Align::left, Align::right,
                   Align::left});
  table.add({"model", "prec.", "batch", "workers", "strategy", "network", "measured", "repeats", "predicted",
             "error", "interval", "now", "not seen in calibration"});
  for (const ValidationRow& row : rows) {
    const std::string spread =
        row.repeats > 1 ? fmt::format("{} \u00b1 {:.1f} %", row.repeats, row.repeat_spread * 50) : "1";
    std::optional<double> now_error;
    if (row.now.step && row.measured > 0) now_error = *row.now.step / row.measured - 1;
    table.add({row.model, name_of(row.precision), batch_text(row), std::to_string(row.workers), row.strategy,
               network_text(row), time_text(row.measured), spread,
               optional_time(row.predicted_before ? row.predicted_before : row.predicted),
               signed_percent(row.error), hit_text(row) + (row.noisy() ? ", noisy" : ""),
               signed_percent(now_error), joined(row.distance, ", ")});
  }
  const std::string text = table.text();
  return is_wider(text, width) ? narrow_rows_table(rows, width) : text;
}

void write_job(JsonWriter& json, const JobRow& job) {
  json.begin_object();
  json.member("scenario", job.scenario);
  json.member("file", job.file);
  json.key("parts");
  json.begin_array();
  for (const JobPartRow& part : job.parts) {
    json.begin_object();
    json.member("what", part.what);
    json.member("count", part.count);
    json.member("measured_s", part.measured);
    json.member("predicted_before_s", part.predicted_before);
    json.member("predicted_s", part.predicted);
    json.member("error", part.error);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

// What happens several times is shown with the time of each; in few columns, with that alone.
std::string job_table(const JobRow& job, int width) {
  using Align = TextTable::Align;
  std::vector<Align> right(8, Align::right);
  right.front() = Align::left;
  TextTable wide(right);
  right.resize(6);
  TextTable narrow(right);
  wide.add(
      {"job " + job.scenario, "count", "each took", "predicted", "all took", "predicted", "error", "now"});
  narrow.add({"job " + job.scenario, "count", "each took", "predicted", "error", "now"});
  for (const JobPartRow& part : job.parts) {
    const std::optional<double> predicted = part.predicted_before ? part.predicted_before : part.predicted;
    const double count = std::max(1, part.count);
    const bool repeats = part.count > 1 && part.measured > 0;
    const auto each = [&](std::optional<double> seconds) {
      if (seconds && repeats) *seconds /= count;
      return optional_time(seconds);
    };
    std::optional<double> now;
    if (part.predicted && part.measured > 0) now = *part.predicted / part.measured - 1;
    const std::string counted = std::to_string(part.count);
    wide.add({part.what, counted, repeats ? each(part.measured) : "", repeats ? each(predicted) : "",
              time_text(part.measured), optional_time(predicted), signed_percent(part.error),
              signed_percent(now)});
    narrow.add({part.what, counted, each(part.measured), each(predicted), signed_percent(part.error),
                signed_percent(now)});
  }
  const std::string text = wide.text();
  return is_wider(text, width) ? narrow.text("", width, 0) : text;
}

std::vector<std::string> summary_cells(const std::string& name, const ErrorSummary& s) {
  const auto optional_percent = [](const std::optional<double>& value) {
    return value ? percent(*value) : "-";
  };
  if (s.rows == 0) return {name, "0", "-", "-", "-", "-", "-", "-", "-"};
  return {name,
          std::to_string(s.rows),
          percent(s.mean_abs_error),
          percent(s.max_abs_error),
          signed_percent(s.mean_error),
          fmt::format("{:.0f} %", s.coverage * 100),
          percent(s.interval_width),
          optional_percent(s.naive_mean_abs_error),
          s.skill ? fmt::format("{:.2f}", *s.skill) : "-"};
}

}  // namespace

void write_validation_json(const Validation& validation, const TextSink& sink) {
  JsonWriter json(sink);
  json.begin_object();
  json.member("schema", "foretrain/validation/1");
  json.key("rows");
  json.begin_array();
  for (const ValidationRow& row : validation.rows) write_row(json, row);
  json.end_array();
  json.key("jobs");
  json.begin_array();
  for (const JobRow& job : validation.jobs) write_job(json, job);
  json.end_array();
  json.key("summary");
  write_summary(json, validation.summary);
  write_parts(json, "groups", validation.groups);
  write_parts(json, "by_distance", validation.by_distance);
  write_parts(json, "by_kind", validation.by_kind);
  json.key("now");
  json.begin_object();
  json.key("summary");
  write_summary(json, validation.now);
  write_parts(json, "by_distance", validation.now_by_distance);
  json.end_object();
  json.key("memory");
  json.begin_object();
  json.member("mean_abs_error", validation.memory_mean_abs_error);
  json.member("max_abs_error", validation.memory_max_abs_error);
  json.end_object();
  json.end_object();
  sink("\n");
}

void write_validation_csv(const Validation& validation, const TextSink& sink) {
  sink(
      "scenario,group,model,precision,batch_per_worker,workers,nodes,network,measured_s,measured_p05_s,"
      "measured_p95_s,repeat_spread,predicted_before_s,predicted_s,low_s,high_s,naive_s,error,hit,"
      "distance,clock,throttled\n");
  for (const ValidationRow& row : validation.rows) {
    const std::vector<std::string> cells{row.scenario,
                                         row.group,
                                         row.model,
                                         name_of(row.precision),
                                         std::to_string(row.batch_per_worker),
                                         std::to_string(row.workers),
                                         std::to_string(row.nodes),
                                         row.network,
                                         shortest(row.measured),
                                         shortest(row.measured_p05),
                                         shortest(row.measured_p95),
                                         shortest(row.repeat_spread),
                                         cell(row.predicted_before),
                                         cell(row.predicted),
                                         cell(row.low),
                                         cell(row.high),
                                         cell(row.naive),
                                         cell(row.error),
                                         row.hit ? (*row.hit ? "true" : "false") : "",
                                         joined(row.distance, " "),
                                         cell(row.clock),
                                         cell(row.throttled)};
    std::string line;
    for (const std::string& each : cells)
      line += (line.empty() && &each == &cells[0] ? "" : ",") + csv_cell(each);
    sink(line + '\n');
  }
}

std::string validation_table(const Validation& validation, const ValidationTableOptions& options) {
  constexpr int widest_summary = 90;
  using Align = TextTable::Align;
  const int width = options.style.width;
  std::string out = rows_table(validation.rows, width);
  const std::size_t columns = width < widest_summary ? 8 : 9;  // skill follows from the two before it
  std::vector<Align> aligned(columns, Align::right);
  aligned.front() = Align::left;
  TextTable table(std::move(aligned));
  const auto add = [&table, columns](std::vector<std::string> cells) {
    cells.resize(columns);
    table.add(std::move(cells));
  };
  const auto add_summary = [&add](const std::string& name, const ErrorSummary& summary) {
    add(summary_cells(name, summary));
  };
  add({"", "rows", "mean |e|", "max |e|", "mean e", "coverage", "width", "naive |e|", "skill"});
  add_summary("all", validation.summary);
  for (const NamedSummary& part : validation.groups) add_summary("group " + part.name, part.summary);
  for (const NamedSummary& part : validation.by_distance) {
    add_summary(part.name == "in_sample" ? "all seen" : "not seen: " + part.name, part.summary);
  }
  for (const NamedSummary& part : validation.by_kind) add_summary(part.name, part.summary);
  if (validation.now.rows > 0) {
    const std::string with = options.profile.empty() ? "" : ", profile " + options.profile;
    add_summary("predicted now" + with, validation.now);
    for (const NamedSummary& part : validation.now_by_distance) {
      add_summary(part.name == "in_sample" ? "all seen now" : "unseen " + part.name + " now", part.summary);
    }
  }
  out += '\n' + table.text("", width, 0);
  for (const JobRow& job : validation.jobs) out += '\n' + job_table(job, width);
  if (validation.memory_max_abs_error) {
    out += fmt::format("\npeak memory of a worker: mean |error| {}, worst {}\n",
                       percent(*validation.memory_mean_abs_error), percent(*validation.memory_max_abs_error));
  }
  if (options.notes) {
    for (const ValidationRow& row : validation.rows) {
      for (const std::string& note : row.notes) out += fmt::format("{}: {}\n", row.scenario, note);
    }
    for (const JobRow& row : validation.jobs) {
      for (const std::string& note : row.notes) out += fmt::format("{}: {}\n", row.scenario, note);
    }
  }
  return out;
}

}  // namespace foretrain
