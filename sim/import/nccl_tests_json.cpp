// What nccl-tests writes with -J.
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/import/lines.hpp"
#include "sim/import/nccl_tests_log.hpp"

namespace foretrain {
namespace {

using nlohmann::json;

// Numbers stand as numbers or, where they are of several digits or not a number, as text.
std::optional<double> number_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  double value = 0;
  if (found->is_string() && read_number(trimmed(found->get_ref<const std::string&>()), value)) return value;
  return std::nullopt;
}

// A whole number from 0 to `most`, which an integer must hold.
std::optional<std::int64_t> whole_at(const json& object, const char* key, double most) {
  const auto number = number_at(object, key);
  if (!number || !(*number >= 0 && *number <= most)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void read_half(const json& result, const char* key, std::optional<double>& time, NcclTestsRow& row,
               NcclTestsLog& log) {
  const auto half = result.find(key);
  if (half == result.end() || !half->is_object()) return;
  if (const auto read = number_at(*half, "time")) time = *read * 1e-6;
  if (half->contains("cpu_time")) log.host_times = true;
  if (const auto bus = number_at(*half, "bus_bw"))
    row.bus_bandwidth = std::max(row.bus_bandwidth.value_or(0), *bus * 1e9);
  if (const auto wrong = number_at(*half, "nwrong")) row.wrong = std::max(row.wrong, *wrong);
}

}  // namespace

NcclTestsLog read_nccl_tests_json(std::string_view text, const std::string& file) {
  const json root = json::parse(text, nullptr, false);
  if (root.is_discarded())
    throw Error(ErrorKind::input,
                file + ": is not valid JSON; of a run that was killed the file ends in its middle");
  const auto results = root.is_object() ? root.find("results") : root.end();
  if (!root.is_object() || results == root.end() || !results->is_array())
    throw Error(ErrorKind::input, file + ": has no list 'results', which nccl-tests -J writes");
  constexpr double most_bytes = 1e18, most_ranks = 1e6, most_iterations = 1e6, most_version = 1e9;
  NcclTestsLog log;
  for (const json& result : *results) {
    if (!result.is_object()) continue;
    NcclTestsRow row;
    const auto bytes = whole_at(result, "size", most_bytes);
    if (!bytes) {
      ++log.broken_rows;
      continue;
    }
    row.bytes = *bytes;
    row.element = text_at(result, "type");
    row.operation = text_at(result, "redop");
    row.has_root = number_at(result, "root").value_or(-1) >= 0;
    read_half(result, "out_of_place", row.out_of_place, row, log);
    read_half(result, "in_place", row.in_place, row, log);
    log.rows.push_back(std::move(row));
  }
  const auto list = [&](const char* key) {
    const auto found = root.find(key);
    return found != root.end() && found->is_array() ? *found : json::array();
  };
  for (const json& device : list("devices")) {
    if (!device.is_object()) continue;
    const auto found = device.contains("rank") ? whole_at(device, "rank", most_ranks) : 0;
    if (!found) continue;
    const int rank = static_cast<int>(*found);
    log.first_ranks += rank == 0;
    log.host_of_rank[rank] = text_at(device, "hostname");
    log.gpu = text_at(device, "device_info");
  }
  for (const json& argument : list("args")) {
    if (!argument.is_string()) continue;
    const std::string& word = argument.get_ref<const std::string&>();
    if (word.ends_with("_perf") && log.test.empty()) log.test = word.substr(word.find_last_of('/') + 1);
  }
  for (const json& variable : list("env")) {
    if (!variable.is_string()) continue;
    const std::string& line = variable.get_ref<const std::string&>();
    const std::size_t equals = line.find('=');
    if (line.starts_with("NCCL_") && equals != std::string::npos)
      log.environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
  if (const auto code = whole_at(root, "nccl_version", most_version)) log.version = nccl_version_text(*code);
  if (const auto config = root.find("config"); config != root.end() && config->is_object()) {
    log.iterations = static_cast<int>(whole_at(*config, "iterations", most_iterations).value_or(0));
    log.is_blocking = text_at(*config, "blocking_collectives") == "true";
  }
  if (const auto average = root.find("average_bus_bandwidth"); average != root.end() && average->is_object())
    log.average = number_at(*average, "bandwidth");
  return log;
}

}  // namespace foretrain
