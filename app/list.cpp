#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/data_directories.hpp"
#include "app/messages.hpp"
#include "app/terminal.hpp"
#include "app/topology_option.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/base/spelling.hpp"
#include "sim/input/catalog.hpp"
#include "sim/output/file_writer.hpp"
#include "sim/output/text_layout.hpp"

namespace foretrain::app {
namespace {

constexpr DataKind kinds[] = {DataKind::model, DataKind::topology, DataKind::profile, DataKind::scenario};

std::vector<DataKind> kinds_of(const std::string& word) {
  if (word.empty()) return {std::begin(kinds), std::end(kinds)};
  std::vector<std::string> words;
  for (const DataKind kind : kinds) {
    if (word == folder_of(kind) || word == name_of(kind)) return {kind};
    words.emplace_back(folder_of(kind));
  }
  throw Error(ErrorKind::input, "list: unknown kind '" + word + "'" + did_you_mean(word, words) +
                                    "; allowed are models, topologies, profiles and scenarios");
}

int list(const std::string& word) {
  using Align = TextTable::Align;
  const std::vector<DataKind> wanted = kinds_of(word);
  const Catalog catalog(data_directories());
  TextTable table({Align::left, Align::left, Align::left});
  std::size_t lines = 0;
  for (const DataKind kind : wanted) {
    for (const Catalog::Entry& entry : catalog.list(kind)) {
      if (wanted.size() > 1) {
        table.add({entry.name, name_of(kind), entry.title});
      } else {
        table.add({entry.name, entry.title});
      }
      ++lines;
    }
  }
  if (lines == 0) {
    const std::string what = wanted.size() == 1 ? folder_of(wanted[0]) : "data";
    note("no " + what + " found; 'foretrain --version' names the folders that are searched");
  }
  std::string text = table.text();
  if (is_terminal(STDOUT_FILENO)) {
    const TextStyle style = text_style(STDOUT_FILENO);
    std::string cut;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      cut += shortened(text.substr(at, end - at), style.width, style) + '\n';
      at = end + 1;
    }
    text = cut;
  }
  write_file("-", text);
  return 0;
}

}  // namespace

Action prepare_list(CLI::App& command) {
  struct Options {
    std::string kind, topology, target;
    std::vector<std::string> settings;
  };
  auto options = std::make_shared<Options>();
  command.add_option("KIND", options->kind, "models, topologies, profiles or scenarios; all of them without");
  auto* topology = command.add_option("TOPOLOGY", options->topology, "with topologies: one of them, to draw");
  auto* draw = command
                   .add_option("--draw", options->target,
                               "draw it: DOT, or .svg, .png, .pdf by Graphviz; - is standard output")
                   ->type_name("FILE|-")
                   ->needs(topology);
  topology->needs(draw);
  command.add_option("--set", options->settings, "set a key of the topology, as in nodes=4; may be repeated")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false)
      ->needs(draw);
  return [options] {
    if (options->topology.empty()) return list(options->kind);
    if (kinds_of(options->kind) != std::vector<DataKind>{DataKind::topology}) {
      throw Error(ErrorKind::input, "list: only topologies can be drawn: list topologies NAME --draw FILE");
    }
    const Catalog catalog(data_directories());
    draw_topology(read_topology_option(options->topology, options->settings, catalog).topology,
                  options->target);
    return 0;
  };
}

}  // namespace foretrain::app
