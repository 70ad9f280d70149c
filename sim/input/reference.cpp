#include "sim/input/reference.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <vector>

#include "sim/input/model_schema.hpp"
#include "sim/input/scenario_schema.hpp"
#include "sim/input/schema.hpp"
#include "sim/input/strategy_schema.hpp"
#include "sim/input/topology_schema.hpp"

namespace foretrain {
namespace {

std::string list_of(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "`" : ", `") + word + "`";
  return all;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string value_of(const KeySpec& key) {
  std::string text = key.allowed.empty() ? name_of(key.type) : list_of(key.allowed);
  auto bound = [&](const char* relation, double value) {
    if (std::isfinite(value)) text += fmt::format(", {} {}", relation, shown_bound(value, key.type));
  };
  bound("at least", key.at_least);
  bound("above", key.above);
  bound("at most", key.at_most);
  if (!key.example.empty()) text += fmt::format(", as in `{}`", key.example);
  return text;
}

std::string note_of(const KeySpec& key) {
  std::string text = key.description;
  if (key.keys != nullptr) text += fmt::format(" (keys: [{0}](#{0}))", key.keys->name);
  if (key.items != nullptr && key.items != key.keys) text += " (a list of maps)";
  if (!key.not_simulated.empty()) text += ". Known, and refused: it " + key.not_simulated;
  if (!key.without_effect.empty()) text += ". Known: it " + key.without_effect;
  if (!key.beside.empty()) {
    std::string all;
    for (const std::string& word : key.beside_words) all += (all.empty() ? "" : ", ") + ('`' + word + '`');
    text += fmt::format("; has an effect beside `{}` {} alone", key.beside, all);
  }
  return text;
}

class Page {
 public:
  void heading(const std::string& title, const std::string& text) {
    page_ += fmt::format("\n## {}\n\n{}\n", title, text);
  }

  // A table with its title, then those of the maps below it, each once.
  void table(const Schema& schema, const std::string& title) {
    if (!done_.insert(&schema).second) return;
    page_ += fmt::format("\n### {}\n\n{}\n\n", title, schema.description);
    page_ += "| key | value | default | what it is |\n|---|---|---|---|\n";
    for (const KeySpec& key : schema.keys) {
      const std::string fallback = key.required                ? "required"
                                   : key.default_value.empty() ? ""
                                                               : "`" + key.default_value + "`";
      page_ += fmt::format("| `{}` | {} | {} | {} |\n", key.name, escaped(value_of(key)), escaped(fallback),
                           escaped(note_of(key)));
    }
    std::vector<std::string> later;
    for (const NotModelled& word : schema.not_modelled) later.push_back(word.name);
    if (!later.empty()) page_ += fmt::format("\nKnown and not modelled yet: {}.\n", list_of(later));
    for (const KeySpec& key : schema.keys) {
      if (key.keys != nullptr) table(*key.keys, key.keys->name);
      if (key.items != nullptr) table(*key.items, key.items->name + ", an item");
    }
  }

  std::string text() && { return std::move(page_); }

 private:
  std::string page_ =
      "# Reference of the input files\n\n"
      "This page is made from the tables that the program checks files against (`foretrain check "
      "--reference`);\n"
      "a test keeps it equal to them. Files are YAML 1.2 without anchors, aliases, tags and second "
      "documents. A\n"
      "quantity is a number and a unit: times in ps, ns, us, ms, s, min, h, d; sizes in B, kB, MB, GB, TB "
      "(powers\n"
      "of 1,000) and KiB, MiB, GiB, TiB (powers of 1,024); rates in bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s "
      "and in\n"
      "sizes a second (GB/s, MiB/s).\n";
  std::set<const Schema*> done_;
};

}  // namespace

std::string reference_page() {
  Page page;
  page.heading("Scenario",
               "One training run: `foretrain simulate FILE`. Any key may be set on the command line "
               "as well, as in `--set cluster.nodes=4`.");
  page.table(scenario_schema(), "scenario");
  page.table(step_profile_schema(), "profile, as a map");
  page.table(strategy_schema(), "strategy");
  page.table(data_parallel_schema(), "strategy.data, or in its place");
  page.heading("Cluster",
               "The map under `cluster:`: `topology` names a family, whose keys stand beside it, or a "
               "file of topologies.");
  for (const Schema* family : family_schemas()) page.table(*family, family->name);
  page.heading("Topology file",
               "A family with preset keys (`family: ethernet-nodes` and its keys), or an explicit "
               "graph.");
  page.table(graph_schema(), "graph");
  page.table(graph_vertex_schema(), "vertex");
  page.table(graph_link_schema(), "link");
  page.heading("Model", "A file of models/, or inline under `model:`.");
  page.table(model_schema(), "model");
  page.table(block_schema(), "block");
  page.heading("Layers", "What may stand in a list of layers, each as `- kind: { keys }`.");
  for (const Schema* layer : layer_schemas()) page.table(*layer, layer->name);
  return std::move(page).text();
}

}  // namespace foretrain
