#include "sim/output/csv.hpp"

#include <map>

#include "sim/output/fields.hpp"

namespace foretrain {
namespace {

class CsvFields : public FieldVisitor {
 public:
  void begin_group(std::string_view name) override {
    count_element(name);
    path_.emplace_back(name);
    if (name == "inputs") ++hidden_;
  }
  void end_group() override {
    if (path_.back() == "inputs") --hidden_;
    path_.pop_back();
  }
  void begin_list(std::string_view name) override {
    path_.emplace_back(name);
    lengths_.push_back(0);
    ++hidden_;
  }
  void end_list() override {
    --hidden_;
    const std::int64_t length = lengths_.back();
    lengths_.pop_back();
    const std::string name = path_.back();
    path_.pop_back();
    add(name, std::to_string(length));
  }
  void number(std::string_view name, double value) override { add(name, shortest(value)); }
  void integer(std::string_view name, std::int64_t value) override { add(name, std::to_string(value)); }
  void text(std::string_view name, std::string_view value) override { add(name, std::string(value)); }
  void flag(std::string_view name, bool value) override { add(name, value ? "true" : "false"); }
  void none(std::string_view name) override { add(name, ""); }

  CsvRow row;

 private:
  // Elements of lists have no name.
  void count_element(std::string_view name) {
    if (name.empty() && !lengths_.empty()) ++lengths_.back();
  }
  void add(std::string_view name, std::string cell) {
    count_element(name);
    if (hidden_ > 0) return;
    std::string column;
    for (const std::string& part : path_) column += part + '.';
    row.emplace_back(column + std::string(name), std::move(cell));
  }

  std::vector<std::string> path_;
  std::vector<std::int64_t> lengths_;
  int hidden_ = 0;
};

// Every column there can be: those of a result in which nothing is missing.
std::vector<std::string> all_columns() {
  Result whole;
  whole.job.emplace();
  whole.job->speedup.emplace();
  whole.job->target.emplace();
  whole.job->failures.emplace();
  whole.break_even.emplace();
  whole.sequences.emplace();
  std::vector<std::string> columns;
  for (auto& [column, cell] : csv_row(whole)) columns.push_back(std::move(column));
  return columns;
}

}  // namespace

CsvRow csv_row(const Result& result) {
  CsvFields fields;
  visit_fields(result, fields);
  return std::move(fields.row);
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) {
    cell += c;
    if (c == '"') cell += c;
  }
  return cell + '"';
}

CsvLines::CsvLines() : columns_(all_columns()) {}

std::string CsvLines::heading() const {
  std::string line;
  for (const std::string& column : columns_) line += (line.empty() ? "" : ",") + csv_cell(column);
  return line + '\n';
}

std::string CsvLines::line_of(const Result& result) const {
  std::map<std::string, std::string> cells;
  for (auto& [column, cell] : csv_row(result)) cells[column] = std::move(cell);
  std::string line;
  for (const std::string& column : columns_) {
    if (&column != &columns_.front()) line += ',';
    line += csv_cell(cells[column]);
  }
  return line + '\n';
}

void write_csv(std::span<const Result> results, const TextSink& sink) {
  const CsvLines lines;
  sink(lines.heading());
  for (const Result& result : results) sink(lines.line_of(result));
}

}  // namespace foretrain
