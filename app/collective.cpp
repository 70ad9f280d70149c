#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "app/data_directories.hpp"
#include "app/messages.hpp"
#include "app/terminal.hpp"
#include "app/topology_option.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/base/spelling.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/profile_json.hpp"
#include "sim/network/collective_table.hpp"
#include "sim/output/collective_report.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain::app {
namespace {

struct Options {
  std::string kind, topology, bytes, algorithm = "auto", profile, json, csv, format = "table";
  std::vector<std::string> settings;
  bool stepwise = false;
};

CollectiveKind read_kind(const std::string& name) {
  if (const auto kind = collective_kind(name)) return *kind;
  std::vector<std::string> names;
  for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                          CollectiveKind::all_gather, CollectiveKind::broadcast, CollectiveKind::reduce,
                          CollectiveKind::all_to_all, CollectiveKind::send_recv}) {
    names.emplace_back(name_of(kind));
  }
  throw Error(ErrorKind::input,
              "collective: unknown kind '" + name + "'" + did_you_mean(name, names) +
                  "; allowed are all_reduce, reduce_scatter, all_gather, broadcast, reduce, "
                  "all_to_all and send_recv");
}

std::optional<CollectiveAlgorithm> read_algorithm(const std::string& name) {
  if (name == "auto") return std::nullopt;
  if (const auto algorithm = collective_algorithm(name)) return algorithm;
  std::vector<std::string> names = {"auto"};
  for (int a = 0; a < collective_algorithm_count; ++a)
    names.emplace_back(name_of(static_cast<CollectiveAlgorithm>(a)));
  throw Error(ErrorKind::input, "--algorithm: '" + name + "' is unknown; allowed are auto, " +
                                    algorithm_names() + did_you_mean(name, names));
}

std::optional<Profile> read_named_profile(const std::string& name, const Catalog& catalog) {
  if (name.empty()) return std::nullopt;
  Diagnostics diagnostics;
  const auto path = catalog.resolve(DataKind::profile, name, {}, diagnostics);
  auto profile = path ? read_profile(*path, diagnostics) : std::nullopt;
  diagnostics.throw_errors();
  return profile;
}

int collective(const Options& options) {
  const Catalog catalog(data_directories());
  CollectiveRequest request;
  request.kind = read_kind(options.kind);
  request.sizes = parse_sizes(options.bytes);
  request.choice.algorithm = read_algorithm(options.algorithm);
  request.stepwise = options.stepwise;
  if (options.stepwise && !options.profile.empty()) {
    throw Error(ErrorKind::input,
                "--stepwise replays plain flows, which no profile has measured: leave --profile out");
  }
  const Cluster cluster = read_topology_option(options.topology, options.settings, catalog);
  const auto profile = read_named_profile(options.profile, catalog);
  const CollectiveTable table = collective_table(cluster.topology, profile ? &*profile : nullptr, request);
  if (table.ranks < 2) warning("a collective of one rank sends nothing: its times are 0");
  auto write = [](const std::string& target, auto fill) {
    if (target.empty()) return;
    FileWriter writer(target);
    fill([&writer](std::string_view piece) { writer.write(piece); });
    writer.commit();
  };
  write(options.json, [&](const TextSink& sink) { write_collective_json(table, sink); });
  write(options.csv, [&](const TextSink& sink) { write_collective_csv(table, sink); });
  if (options.json != "-" && options.csv != "-") {
    write_file("-", options.format == "nccl-tests" ? nccl_tests_text(table)
                                                   : collective_text(table, text_style(STDOUT_FILENO).width));
  }
  return 0;
}

}  // namespace

Action prepare_collective(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("KIND", options->kind, "all_reduce, all_gather, reduce_scatter, broadcast, reduce, ...")
      ->required();
  command.add_option("--topology", options->topology, "a family, a shipped topology or a file")
      ->type_name("NAME|FILE")
      ->required();
  command.add_option("--set", options->settings, "set a key of the topology, as in nodes=4; may be repeated")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command.add_option("--bytes", options->bytes, "64MiB, a list 1KiB,1MiB, or a range 1KiB..1GiB*4")
      ->type_name("SIZES")
      ->required();
  command
      .add_option("--algorithm", options->algorithm, "auto (what the library picks), " + algorithm_names())
      ->type_name("NAME");
  command.add_flag("--stepwise", options->stepwise,
                   "replay message by message as plain flows: line rate and latency, no library");
  command.add_option("--profile", options->profile, "measured collectives to rest on")
      ->type_name("NAME|FILE");
  command.add_option("--json", options->json, "write the rows as JSON; - is standard output")
      ->type_name("FILE|-");
  command.add_option("--csv", options->csv, "write the rows as CSV; - is standard output")
      ->type_name("FILE|-");
  command.add_option("--format", options->format, "table or nccl-tests")
      ->check(CLI::IsMember({"table", "nccl-tests"}));
  return [options] { return collective(*options); };
}

}  // namespace foretrain::app
