#include "sim/output/collective_report.hpp"

#include <fmt/format.h>

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
        table.stepwise ? "" : fmt::format("{} ±{:.0f}%", name_of(row.origin), 100 * row.relative_uncertainty);
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

std::string nccl_tests_text(const CollectiveTable& table) {
  std::string text = fmt::format("# nRanks {} nNodes {} collective {} topology {} (predicted)\n", table.ranks,
                                 table.nodes, name_of(table.kind), table.topology);
  text += fmt::format("#{:>12} {:>13} {:>9} {:>7} {:>6} {:>9} {:>7} {:>7}\n", "size", "count", "type",
                      "redop", "root", "time", "algbw", "busbw");
  text += fmt::format("#{:>12} {:>13} {:>9} {:>7} {:>6} {:>9} {:>7} {:>7}\n", "(B)", "(elements)", "", "", "",
                      "(us)", "(GB/s)", "(GB/s)");
  for (const CollectiveRow& row : table.rows) {
    const double us = row.seconds * 1e6;
    text +=
        fmt::format(" {:>12} {:>13} {:>9} {:>7} {:>6} {:>9} {:>7.2f} {:>7.2f}\n", row.bytes.count(),
                    row.bytes.count() / 4, "float", has_reduction(table.kind) ? "sum" : "none",
                    table.kind == CollectiveKind::broadcast || table.kind == CollectiveKind::reduce ? 0 : -1,
                    us >= 1000 ? fmt::format("{:.0f}", us) : fmt::format("{:.2f}", us),
                    row.algorithm_bandwidth * 1e-9, row.bus_bandwidth * 1e-9);
  }
  return text;
}

}  // namespace foretrain
