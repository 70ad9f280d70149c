// What stands in the output of nccl-tests, before it is made into a profile.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

// One size of one table: out of place and in place, in seconds; nothing where a column is N/A or missing.
struct NcclTestsRow {
  std::int64_t bytes = 0;
  std::string element, operation;  // "float", "sum"; empty where the log has no such column
  bool has_root = false;           // a root of 0 or more
  std::optional<double> out_of_place, in_place;
  std::optional<double> bus_bandwidth;  // bytes per second, of either
  double wrong = 0;                     // results that were wrong; of old logs the error
};

struct NcclTestsLog {
  std::string test;  // "all_reduce_perf", where the log names it
  std::vector<NcclTestsRow> rows;
  std::map<int, std::string> host_of_rank;
  std::string gpu, version;  // "NVIDIA A100-SXM4-40GB", "2.18.3"
  int iterations = 0;
  int first_ranks = 0;            // lines that call themselves rank 0: above 1, runs of one rank each
  std::optional<double> average;  // bus bandwidth in GB/s, as its last line says
  std::map<std::string, std::string> environment;                       // NCCL_* that the log says are set
  std::map<std::int64_t, std::pair<std::string, std::string>> choices;  // bytes -> algorithm, protocol
  std::string transport;    // "Socket", "IB", as NCCL's lines name it
  bool host_times = false;  // of the launches, not of the collectives (-C)
  bool is_blocking = false;
  int foreign_lines = 0;  // of NCCL, of libraries, of people: passed over
  int broken_rows = 0;    // begin as a row and are none: another line ran into them
};

NcclTestsLog read_nccl_tests_log(std::string_view text);
// Throws Error(input) where it is not what -J writes. `file` names it in messages.
NcclTestsLog read_nccl_tests_json(std::string_view text, const std::string& file);

// "2.28.9" of 22809, "2.8.4" of 2804: NCCL's version code.
std::string nccl_version_text(std::int64_t code);

}  // namespace foretrain
