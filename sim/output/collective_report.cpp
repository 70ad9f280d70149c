#include "sim/output/collective_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/parse_units.hpp"
#include "sim/output/text_layout.hpp"

namespace foretrain {
namespace {

constexpr const char* schema = "foretrain/collective/1";

bool has_reduction(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::reduce;
}

std::string size_text(Bytes bytes) {
  const std::int64_t count = bytes.count();
  for (const auto& [shift, unit] : {std::pair{30, "GiB"}, std::pair{20, "MiB"}, std::pair{10, "KiB"}}) {
    if (count >= (std::int64_t{1} << shift) && count % (std::int64_t{1} << shift) == 0) {
      return fmt::format("{} {}", count >> shift, unit);
    }
  }
  return fmt::format("{} B", count);
}

const char* nccl_tests_program(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce_perf";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter_perf";
    case CollectiveKind::all_gather:
      return "all_gather_perf";
    case CollectiveKind::broadcast:
      return "broadcast_perf";
    case CollectiveKind::reduce:
      return "reduce_perf";
    case CollectiveKind::all_to_all:
      return "alltoall_perf";
    case CollectiveKind::send_recv:
      return "sendrecv_perf";
  }
  return "";
}

// Two decimals where the column has room for them, else fewer.
std::string column_number(double value, std::size_t width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:.{}f}", value, decimals);
    if (text.size() <= width) return text;
  }
  return fmt::format("{:.1e}", value);
}

}  // namespace

void write_collective_json(const CollectiveTable& table, const TextSink& sink) {
  JsonWriter json(sink);
  json.begin_object();
  json.member("schema", schema);
  json.member("version", FORETRAIN_VERSION);
  json.member("kind", name_of(table.kind));
  json.member("topology", table.topology);
  json.member("ranks", table.ranks);
  json.member("nodes", table.nodes);
  json.member("stepwise", table.stepwise);
  json.key("rows");
  json.begin_array();
  for (const CollectiveRow& row : table.rows) {
    json.begin_object();
    json.member("bytes", row.bytes.count());
    json.member("time_s", row.seconds);
    json.member("algbw_Bps", row.algorithm_bandwidth);
    json.member("busbw_Bps", row.bus_bandwidth);
    json.member("algorithm", row.algorithm);
    json.key("protocol");
    if (row.protocol.empty()) {
      json.null();
    } else {
      json.value(row.protocol);
    }
    json.member("origin", name_of(row.origin));
    json.member("low_s", row.seconds / (1 + row.relative_uncertainty));
    json.member("high_s", row.seconds * (1 + row.relative_uncertainty));
    json.member("extrapolated", row.extrapolated);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  sink("\n");
}

void write_collective_csv(const CollectiveTable& table, const TextSink& sink) {
  sink("kind,topology,ranks,nodes,bytes,time_s,algbw_Bps,busbw_Bps,algorithm,protocol,origin\n");
  for (const CollectiveRow& row : table.rows) {
    sink(fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", name_of(table.kind), table.topology, table.ranks,
                     table.nodes, row.bytes.count(), shortest(row.seconds), shortest(row.algorithm_bandwidth),
                     shortest(row.bus_bandwidth), row.algorithm, row.protocol, name_of(row.origin)));
  }
}

std::string collective_text(const CollectiveTable& table, int width) {
  using Align = TextTable::Align;
  std::string text =
      fmt::format("{} on {}: {} rank{} on {} node{}{}\n", name_of(table.kind), table.topology, table.ranks,
                  table.ranks == 1 ? "" : "s", table.nodes, table.nodes == 1 ? "" : "s",
                  table.stepwise ? ", plain flows step by step" : "");
  TextTable rows(
      {Align::right, Align::right, Align::right, Align::right, Align::left, Align::left, Align::left});
  rows.add({"size", "time", "algbw", "busbw", "algorithm", "proto", table.stepwise ? "" : "origin"});
  std::set<std::string> ranges;
  for (const CollectiveRow& row : table.rows) {
    const std::string origin =
        table.stepwise || table.ranks < 2
            ? ""
            : fmt::format("{} ±{:.0f}%", name_of(row.origin), 100 * row.relative_uncertainty);
    rows.add({size_text(row.bytes), format_time(row.seconds), format_byte_rate(Rate(row.algorithm_bandwidth)),
              format_byte_rate(Rate(row.bus_bandwidth)), row.algorithm, row.protocol, origin});
    if (row.extrapolated && !row.range.empty()) ranges.insert(row.range);
  }
  constexpr std::size_t origin_column = 6;
  text += rows.text("  ", width, origin_column);
  for (const std::string& range : ranges) {
    text += wrapped("extrapolated; measured: " + range, width, "  ", "    ");
  }
  return text;
}

// As nccl-tests 2.13 and later print it, so that what reads its logs reads this: ranks, both groups of
// columns (in place is predicted as out of place), #wrong N/A since nothing was computed.
std::string nccl_tests_text(const CollectiveTable& table) {
  std::string text = fmt::format("# Collective test starting: {}\n", nccl_tests_program(table.kind));
  text += fmt::format("# predicted by foretrain {}: nRanks {} nNodes {} topology {}\n#\n# Using devices\n",
                      FORETRAIN_VERSION, table.ranks, table.nodes, table.topology);
  for (int rank = 0; rank < table.ranks; ++rank) {
    const int per_node = std::max(1, table.ranks / std::max(1, table.nodes));
    text += fmt::format("#  Rank {:>2} Group  0 Pid      0 on {:>10} device {:>2} [0000:00:00] predicted\n",
                        rank, fmt::format("node{}", rank / per_node), rank % per_node);
  }
  constexpr const char* row =
      "{:>12}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}\n";
  const auto head = [&](auto... cells) {
    std::string line = fmt::format(fmt::runtime(row), cells...);
    line[0] = '#';
    text += line;
  };
  text += fmt::format("#\n#{:>66}{:>35}\n", "out-of-place", "in-place");
  head("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
       "#wrong");
  head("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
  double sum = 0;
  for (const CollectiveRow& each : table.rows) {
    const std::string time = column_number(each.seconds * 1e6, 7),
                      algbw = column_number(each.algorithm_bandwidth * 1e-9, 6),
                      busbw = column_number(each.bus_bandwidth * 1e-9, 6);
    const bool has_root = table.kind == CollectiveKind::broadcast || table.kind == CollectiveKind::reduce;
    text += fmt::format(fmt::runtime(row), each.bytes.count(), each.bytes.count() / 4, "float",
                        has_reduction(table.kind) ? "sum" : "none", has_root ? 0 : -1, time, algbw, busbw,
                        "N/A", time, algbw, busbw, "N/A");
    sum += each.bus_bandwidth * 1e-9;
  }
  if (!table.rows.empty())
    text += fmt::format("# Avg bus bandwidth    : {:g}\n#\n", sum / static_cast<double>(table.rows.size()));
  return text;
}

}  // namespace foretrain
