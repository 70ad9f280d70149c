#include "sim/output/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/parse_units.hpp"
#include "sim/output/caveats_json.hpp"

namespace foretrain {
namespace {

std::string expense_text(const Plan& plan, double expense) {
  return fmt::format("{:.2f} {}", expense, plan.expense);
}

std::string described(const Plan& plan, std::size_t index) {
  const PlanRow& row = plan.rows[index];
  return fmt::format("{}: {}, {}", row.name, format_time(row.time), expense_text(plan, row.expense));
}

std::string mark_of(const Plan& plan, std::size_t i) {
  const PlanRow& row = plan.rows[i];
  std::string mark;
  auto add = [&](const char* word) { mark += (mark.empty() ? "" : ", ") + std::string(word); };
  if (plan.cheapest == i) add("cheapest");
  if (plan.fastest == i) add("fastest");
  if (plan.nearest == i) add("nearest miss");
  if (!row.fits_memory) add("does not fit in memory");
  if (plan.bounds.deadline && row.time > *plan.bounds.deadline) add("too late");
  if (plan.bounds.budget && row.expense > *plan.bounds.budget) add("too dear");
  return mark;
}

}  // namespace

std::string plan_text(const Plan& plan, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table({Align::left, Align::right, Align::right, Align::right, Align::left, Align::left});
  table.add({"row", "workers", "time", plan.expense, "front", ""});
  // What the other columns and a mark of two words leave of 80.
  constexpr int name_room = 25;
  constexpr std::size_t most_rows = 40, mark_column = 5;
  std::size_t shown = 0;
  std::vector<std::string> names;
  for (const PlanRow& row : plan.rows) names.push_back(row.name);
  names = distinct_names(std::move(names), name_room + std::max(0, style.width - 80), style);
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const PlanRow& row = plan.rows[i];
    const bool matters = row.on_front || row.feasible || plan.nearest == i;
    if (plan.rows.size() > most_rows && !matters) continue;
    if (++shown > most_rows) continue;
    table.add({names[i], std::to_string(row.workers), format_time(row.time),
               fmt::format("{:.2f}", row.expense), row.on_front ? "*" : "", mark_of(plan, i)});
  }
  std::string out = table.text("", style.width, mark_column);
  if (shown > most_rows) out += fmt::format("and {} more rows, which --json lists\n", shown - most_rows);
  out += '\n';
  auto say = [&](const std::string& text) { out += wrapped(text, style.width, "", "  "); };
  if (plan.cheapest) {
    say("Cheapest: " + described(plan, *plan.cheapest));
    if (plan.fastest != plan.cheapest) say("Fastest: " + described(plan, *plan.fastest));
  } else if (plan.nearest) {
    say("No row meets the bounds. Nearest: " + described(plan, *plan.nearest));
  }
  for (const std::string& advice : plan.advice) say(advice);
  say("front (*): rows that no other beats in time and " + plan.expense + " alike");
  return out;
}

void write_plan_json(const Plan& plan, const TextSink& sink) {
  JsonWriter writer(sink);
  writer.begin_object();
  writer.member("schema", "foretrain/plan/1");
  writer.member("version", FORETRAIN_VERSION);
  writer.member("deadline_s", plan.bounds.deadline);
  writer.member("budget", plan.bounds.budget);
  writer.member("expense", plan.expense);
  writer.member("feasible", plan.cheapest.has_value());
  writer.member("cheapest", plan.cheapest);
  writer.member("fastest", plan.fastest);
  writer.member("nearest", plan.nearest);
  writer.key("rows");
  writer.begin_array();
  for (const PlanRow& row : plan.rows) {
    writer.begin_object();
    writer.member("name", row.name);
    writer.member("workers", row.workers);
    writer.member("time_s", row.time);
    writer.member("expense", row.expense);
    writer.member("fits_memory", row.fits_memory);
    writer.member("feasible", row.feasible);
    writer.member("on_front", row.on_front);
    write_caveats(writer, row.warnings, row.extrapolated);
    writer.end_object();
  }
  writer.end_array();
  writer.key("advice");
  writer.begin_array();
  for (const std::string& advice : plan.advice) writer.value(advice);
  writer.end_array();
  writer.end_object();
}

}  // namespace foretrain
