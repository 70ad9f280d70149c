#include "sim/output/explanation_report.hpp"

#include <fmt/format.h>

#include "sim/base/parse_units.hpp"

namespace foretrain {
namespace {

std::string described(const Reading& reading) {
  std::string text = fmt::format("{} gradients, {}", reading.gradients, reading.strategy);
  if (!reading.line.empty()) text += ", line " + reading.line;
  if (!reading.direction.empty()) {
    text += fmt::format(", traffic seen of {}",
                        reading.direction == "sum" ? "both directions together" : "each direction");
  }
  if (!reading.besides.empty()) text += ", and " + reading.besides;
  return text;
}

// Readings that differ in the batch alone and fare alike are one line.
struct Line {
  const Reading* first = nullptr;
  std::string batches;
  double step = 0;  // of the last
};

std::vector<Line> lines_of(const Explanation& explanation, bool consistent, bool alone) {
  std::vector<Line> lines;
  for (const Reading& reading : explanation.readings) {
    if (reading.consistent != consistent || (consistent && reading.besides.empty() != alone)) continue;
    bool is_known = false;
    for (Line& line : lines) {
      if (described(*line.first) != described(reading)) continue;
      is_known = true;
      line.step = reading.step;
      if (line.batches.find(reading.batch) == std::string::npos) line.batches += " or " + reading.batch;
    }
    if (!is_known) lines.push_back({&reading, reading.batch, reading.step});
  }
  return lines;
}

}  // namespace

std::string explanation_text(const Explanation& explanation, const TextStyle& style) {
  std::string out;
  auto say = [&](const std::string& text, const std::string& head = "", const std::string& next = "  ") {
    out += wrapped(text, style.width, head, next);
  };
  for (const std::string& text : explanation.verdict) say(text);
  for (const bool alone : {true, false}) {
    const std::vector<Line> lines = lines_of(explanation, true, alone);
    if (!lines.empty()) {
      out += alone ? "\nAgrees with everything seen:\n" : "\nAgrees if something else holds the step up:\n";
    }
    for (const Line& line : lines) {
      const Reading& reading = *line.first;
      const std::string step = line.step == reading.step
                                   ? format_time(reading.step)
                                   : format_time(reading.step) + " or " + format_time(line.step);
      say(fmt::format("{}, batch {}: step {}, {} a step on the wire, limit {}", described(reading),
                      line.batches, step, format_bytes(reading.wire_bytes), reading.limiting),
          "  + ", "    ");
    }
  }
  const std::vector<Line> excluded = lines_of(explanation, false, false);
  if (!excluded.empty()) out += "\nExcluded:\n";
  for (const Line& line : excluded) {
    say(fmt::format("{}, batch {}, by {}", described(*line.first), line.batches, line.first->excluded_by),
        "  - ", "    ");
  }
  if (!explanation.measure_next.empty()) out += "\nTo tell apart what remains, measure\n";
  for (const std::string& text : explanation.measure_next) say(text, "  * ", "    ");
  if (!explanation.remarks.empty()) out += '\n';
  for (const std::string& text : explanation.remarks) say(text);
  return out;
}

void write_explanation_json(const Explanation& explanation, const TextSink& sink) {
  JsonWriter writer(sink);
  writer.begin_object();
  writer.member("schema", "foretrain/explanation/1");
  writer.member("version", FORETRAIN_VERSION);
  writer.key("readings");
  writer.begin_array();
  for (const Reading& reading : explanation.readings) {
    writer.begin_object();
    writer.member("batch", reading.batch);
    writer.member("gradients", reading.gradients);
    writer.member("strategy", reading.strategy);
    writer.member("line", reading.line);
    writer.member("direction", reading.direction);
    writer.member("besides", reading.besides);
    writer.member("consistent", reading.consistent);
    writer.member("excluded_by", reading.excluded_by);
    writer.member("step_s", reading.step);
    writer.member("low_s", reading.low);
    writer.member("high_s", reading.high);
    writer.member("wire_bytes_per_step", reading.wire_bytes);
    writer.member("wire_busy", reading.wire_busy);
    writer.member("gpu_busy", reading.gpu_busy);
    writer.member("limiting", reading.limiting);
    writer.end_object();
  }
  writer.end_array();
  const std::pair<const char*, const std::vector<std::string>&> lists[] = {
      {"verdict", explanation.verdict},
      {"measure_next", explanation.measure_next},
      {"remarks", explanation.remarks}};
  for (const auto& [name, texts] : lists) {
    writer.key(name);
    writer.begin_array();
    for (const std::string& text : texts) writer.value(text);
    writer.end_array();
  }
  writer.end_object();
}

}  // namespace foretrain
