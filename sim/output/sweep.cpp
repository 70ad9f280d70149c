#include "sim/output/sweep.hpp"

#include <algorithm>

#include "sim/output/csv.hpp"
#include "sim/output/json.hpp"

namespace foretrain {

std::vector<Result> Sweep::results() const {
  std::vector<Result> all;
  for (const SweepRow& row : rows) all.push_back(row.result);
  return all;
}

std::vector<std::string> Sweep::names() const {
  const std::vector<std::string> shown = short_names(axes);
  std::vector<std::string> names;
  for (const SweepRow& row : rows) {
    std::string name;
    for (std::size_t i = 0; i < shown.size(); ++i)
      name += (i == 0 ? "" : " ") + shown[i] + '=' + row.values[i];
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> short_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    std::size_t dot = path.rfind('.');
    auto tail = [&](const std::string& whole) {
      const std::size_t length = dot == std::string::npos ? path.size() : path.size() - dot - 1;
      return whole.size() >= length ? whole.substr(whole.size() - length) : whole;
    };
    // Longer until no other path ends alike.
    while (dot != std::string::npos && std::any_of(paths.begin(), paths.end(), [&](const std::string& other) {
             return other != path && tail(other) == tail(path);
           })) {
      dot = dot == 0 ? std::string::npos : path.rfind('.', dot - 1);
    }
    names.push_back(tail(path));
  }
  return names;
}

void write_sweep_json(const Sweep& sweep, const TextSink& sink) {
  JsonWriter writer(sink);
  writer.begin_object();
  writer.member("schema", Result::schema);
  writer.member("version", FORETRAIN_VERSION);
  writer.member("scenario", sweep.scenario);
  writer.member("seed", sweep.seed);
  writer.member("complete", sweep.complete);
  if (sweep.part.of > 1) {
    writer.key("part");
    writer.begin_object();
    writer.member("index", static_cast<std::int64_t>(sweep.part.index));
    writer.member("of", static_cast<std::int64_t>(sweep.part.of));
    writer.member("points", static_cast<std::int64_t>(sweep.part.points));
    writer.end_object();
  }
  writer.key("vary");
  writer.begin_array();
  for (const std::string& axis : sweep.axes) writer.value(axis);
  writer.end_array();
  writer.key("rows");
  writer.begin_array();
  for (const SweepRow& row : sweep.rows) {
    writer.begin_object();
    if (sweep.part.of > 1) writer.member("point", static_cast<std::int64_t>(row.point));
    writer.key("set");
    writer.begin_object();
    for (std::size_t i = 0; i < sweep.axes.size(); ++i) writer.member(sweep.axes[i], row.values[i]);
    writer.end_object();
    write_result_members(row.result, writer);
    writer.end_object();
  }
  writer.end_array();
  writer.end_object();
}

void write_sweep_csv(const Sweep& sweep, const TextSink& sink) {
  const CsvLines lines;
  std::string head;
  for (const std::string& axis : sweep.axes) head += csv_cell(axis) + ',';
  sink(head + lines.heading());
  for (const SweepRow& row : sweep.rows) {
    std::string values;
    for (const std::string& value : row.values) values += csv_cell(value) + ',';
    sink(values + lines.line_of(row.result));
  }
}

}  // namespace foretrain
