#include "sim/import/nccl_tests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/base/quantile.hpp"
#include "sim/import/lines.hpp"
#include "sim/import/nccl_tests_log.hpp"
#include "sim/import/node_graph.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/profile_json.hpp"
#include "sim/network/collectives.hpp"

namespace foretrain {
namespace {

constexpr CollectiveKind all_kinds[] = {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                                        CollectiveKind::all_gather, CollectiveKind::broadcast,
                                        CollectiveKind::reduce,     CollectiveKind::all_to_all,
                                        CollectiveKind::send_recv};

std::optional<CollectiveKind> kind_of_test(const std::string& test) {
  static const std::map<std::string, CollectiveKind> tests = {
      {"all_reduce_perf", CollectiveKind::all_reduce},
      {"reduce_scatter_perf", CollectiveKind::reduce_scatter},
      {"all_gather_perf", CollectiveKind::all_gather},
      {"broadcast_perf", CollectiveKind::broadcast},
      {"reduce_perf", CollectiveKind::reduce},
      {"alltoall_perf", CollectiveKind::all_to_all},
      {"sendrecv_perf", CollectiveKind::send_recv}};
  // "all_reduce_perf_mpi" is the same program.
  constexpr std::string_view ending = "_perf";
  const auto found = tests.find(test.substr(0, std::min(test.size(), test.find(ending) + ending.size())));
  return found == tests.end() ? std::nullopt : std::optional(found->second);
}

// fp32 of float, and so on; other elements stay as they are.
std::string element_of(const std::string& type) {
  static const std::map<std::string, std::string> known = {
      {"float", "fp32"}, {"float32", "fp32"}, {"half", "fp16"}, {"float16", "fp16"}, {"bfloat16", "bf16"}};
  const auto found = known.find(type);
  return found == known.end() ? type : found->second;
}

double best_time(const NcclTestsRow& row) {
  return row.in_place.value_or(row.out_of_place.value_or(0));
}

[[noreturn]] void refuse(const ImportOptions& options, const std::string& why) {
  throw Error(ErrorKind::input, options.file + ": " + why);
}

// The factor between the bandwidths that the log prints tells what collective it was: 2(n-1)/n, (n-1)/n or 1.
std::optional<CollectiveKind> kind_by_bandwidth(const NcclTestsLog& log, int ranks) {
  double factor = 0;
  std::int64_t largest = 0;
  bool reduces = false, has_root = false;
  for (const NcclTestsRow& row : log.rows) {
    const double time = best_time(row);
    if (!(time > 0) || row.bytes <= largest || row.bus_bandwidth.value_or(0) <= 0) continue;
    // The larger of the two bandwidths belongs to the shorter time.
    const double shortest = row.out_of_place ? std::min(time, *row.out_of_place) : time;
    largest = row.bytes;
    factor = *row.bus_bandwidth * shortest / static_cast<double>(row.bytes);
    reduces = !row.operation.empty() && row.operation != "none";
    has_root = row.has_root;
  }
  const auto is_near = [&](CollectiveKind kind) {
    return std::fabs(factor / bus_factor(kind, ranks) - 1) < 0.03;
  };
  if (factor <= 0) return std::nullopt;
  if (reduces && is_near(CollectiveKind::all_reduce) && !has_root) return CollectiveKind::all_reduce;
  if (reduces && is_near(CollectiveKind::reduce_scatter)) return CollectiveKind::reduce_scatter;
  if (reduces && is_near(CollectiveKind::reduce)) return CollectiveKind::reduce;
  if (!reduces && has_root && is_near(CollectiveKind::broadcast)) return CollectiveKind::broadcast;
  return std::nullopt;  // all_gather and all_to_all print the same, and so may broadcast and send_recv
}

struct Network {
  std::string name;
  double line_rate = 0;
};

// "100 Gbit/s rdma": the rate is what is read of it; the rest names the transport.
Network read_network_option(const ImportOptions& options, const NcclTestsLog& log, int nodes) {
  if (nodes < 2) return {log.gpu.find("PCIe") == std::string::npos ? "nvlink" : "pcie", 0};
  if (options.network.empty()) {
    refuse(options,
           fmt::format("the ranks stand on {} nodes, and the log does not say how fast their network is: add "
                       "--network '100 Gbit/s rdma' (line rate of a node, tcp or rdma)",
                       nodes));
  }
  const NetworkDescription network =
      read_network_text(options.network, log.transport == "IB" ? Transport::rdma : Transport::tcp);
  return {network.name(), network.bandwidth.bytes_per_second()};
}

void check_log(const NcclTestsLog& log, const ImportOptions& options, int ranks) {
  if (log.rows.empty()) {
    refuse(options, log.broken_rows > 0 ? "has no whole row of nccl-tests: other lines ran into all of them"
                                        : "has no row of nccl-tests (size, count, type, time, algbw, busbw)");
  }
  if (log.first_ranks > 1 && ranks < 2) {
    refuse(options,
           fmt::format(
               "{} processes call themselves rank 0 of one: nccl-tests was built without MPI, so that each "
               "measured a GPU with itself; build it with MPI=1, or run one process with -g N",
               log.first_ranks));
  }
  if (ranks == 1) refuse(options, "is of one rank: nothing was communicated; run with -g N or under mpirun");
  double most = 0;
  for (const NcclTestsRow& row : log.rows) most = std::max(most, row.bus_bandwidth.value_or(0));
  if (most <= 0 || (log.average && *log.average == 0)) {
    refuse(options,
           "its average bus bandwidth is 0: the ranks did not communicate (one rank each), or only sizes too "
           "small to tell");
  }
  if (log.host_times) refuse(options, "has times of the host (-C), not of the collectives");
}

std::string lower_or_auto(const NcclTestsLog& log, const char* variable) {
  const auto found = log.environment.find(variable);
  // A list or an exclusion is a choice again.
  if (found == log.environment.end() || found->second.find_first_of(",^;:") != std::string::npos)
    return "auto";
  return found->second;
}

struct Measured {
  std::vector<double> times, others;  // in place, out of place
  double wrong = 0;
  int iterations = 0;
};

CollectiveEntry entry_of(std::int64_t bytes, const Measured& measured) {
  CollectiveEntry entry;
  entry.bytes = bytes;
  const double middle = median(measured.times);
  std::vector<double> all = measured.times;
  all.insert(all.end(), measured.others.begin(), measured.others.end());
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  entry.time = {middle, std::min(*low, middle), std::max(*high, middle), (*high - *low) / 2,
                measured.iterations};
  return entry;
}

}  // namespace

Imported import_nccl_tests(std::string_view bytes, const ImportOptions& options) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && bytes[first] == '{';
  const NcclTestsLog log = is_json ? read_nccl_tests_json(bytes, options.file) : read_nccl_tests_log(bytes);
  const int ranks = static_cast<int>(log.host_of_rank.size());
  check_log(log, options, ranks);
  if (ranks == 0) {
    refuse(options,
           "does not list its ranks ('#  Rank  0 Pid ... on HOST device  0 ...'): keep the head of the log");
  }
  std::map<std::string, int> ranks_of_host;
  for (const auto& [rank, host] : log.host_of_rank) ++ranks_of_host[host];
  const int nodes = static_cast<int>(ranks_of_host.size());

  std::optional<CollectiveKind> kind = options.collective;
  if (!kind) kind = kind_of_test(log.test);
  for (const char* other : {"gather_perf", "scatter_perf", "hypercube_perf"})
    if (!kind && log.test == other)
      refuse(options, fmt::format("is of {}, a collective that no data-parallel step uses", other));
  if (!kind) kind = kind_by_bandwidth(log, ranks);
  if (!kind) {
    std::string names;
    for (const CollectiveKind each : all_kinds)
      names += (names.empty() ? "" : ", ") + std::string(name_of(each));
    refuse(options, "does not name its collective, and its columns leave several: add --collective " + names);
  }
  const Network network = read_network_option(options, log, nodes);

  std::map<std::pair<std::string, std::int64_t>, Measured> sizes;
  int empty = 0, wrong = 0;
  for (const NcclTestsRow& row : log.rows) {
    const double time = best_time(row);
    if (!(time > 0) || row.bytes <= 0) {
      ++empty;
      continue;
    }
    wrong += row.wrong > 1e-2;
    Measured& measured = sizes[{element_of(row.element), row.bytes}];
    measured.times.push_back(time);
    if (row.in_place && row.out_of_place) measured.others.push_back(*row.out_of_place);
    measured.iterations += std::max(1, log.iterations);
  }
  if (sizes.empty()) refuse(options, "has no row with a size and a time above 0");

  Profile profile;
  profile.name = data_name(options.target);
  profile.device = "cuda";
  CalibrationRun run;
  run.command = "nccl-tests" + (log.test.empty() ? "" : " " + log.test);
  run.machine.gpu = log.gpu;
  run.machine.gpus =
      std::max_element(ranks_of_host.begin(), ranks_of_host.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->second;
  run.machine.nccl = log.version;
  run.machine.link = network.line_rate > 0 ? "" : network.name == "pcie" ? "PCIe" : "NVLink";
  run.machine.environment = log.environment;
  for (const auto& [key, measured] : sizes) {
    CollectiveEntry entry = entry_of(key.second, measured);
    entry.kind = name_of(*kind);
    entry.ranks = ranks;
    entry.nodes = nodes;
    entry.network = network.name;
    entry.line_rate = network.line_rate;
    entry.algorithm = lower_case(lower_or_auto(log, "NCCL_ALGO"));
    entry.protocol = lower_or_auto(log, "NCCL_PROTO");
    if (const auto choice = log.choices.find(key.second); choice != log.choices.end())
      std::tie(entry.chosen_algorithm, entry.chosen_protocol) = choice->second;
    entry.element = key.first;
    profile.collectives.push_back(std::move(entry));
  }
  Imported out;
  out.summary = fmt::format("{} on {} ranks of {} node{}: {} sizes from {} to {}", name_of(*kind), ranks,
                            nodes, nodes == 1 ? "" : "s", sizes.size(),
                            format_bytes(static_cast<double>(sizes.begin()->first.second)),
                            format_bytes(static_cast<double>(sizes.rbegin()->first.second)));
  auto note = [&](int count, const char* what) {
    if (count > 0) out.notes.push_back(fmt::format("{} {}", count, what));
  };
  note(log.foreign_lines, "lines are not of nccl-tests: passed over");
  note(log.broken_rows, "rows are not whole (another line ran into them): dropped");
  note(empty, "rows have no size or no time: dropped");
  note(wrong, "rows had wrong results: their times are kept, the machine is in doubt");
  if (log.is_blocking)
    out.notes.emplace_back("each collective was waited for (-m, -n): times hold that wait");
  if (log.version.empty()) out.notes.emplace_back("the log does not say which NCCL it was");
  run.warnings = out.notes;
  profile.runs.push_back(std::move(run));
  out.content = profile_to_json(profile);
  return out;
}

}  // namespace foretrain
