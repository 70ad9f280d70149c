#include "sim/input/reference.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "sim/input/document.hpp"
#include "sim/input/model_schema.hpp"
#include "sim/input/scenario_schema.hpp"
#include "sim/input/schema.hpp"
#include "sim/input/strategy_schema.hpp"
#include "sim/input/topology_schema.hpp"

using namespace foretrain;

namespace {

// Visits a table and all below it.
template <typename Visit>
void visit_tables(const Schema& schema, std::set<const Schema*>& done, Visit visit) {
  if (!done.insert(&schema).second) return;
  visit(schema);
  for (const KeySpec& key : schema.keys) {
    if (key.keys != nullptr) visit_tables(*key.keys, done, visit);
    if (key.items != nullptr) visit_tables(*key.items, done, visit);
  }
}

std::vector<const Schema*> roots() {
  std::vector<const Schema*> all{&scenario_schema(), &step_profile_schema(), &strategy_schema(),
                                 &model_schema(),    &graph_schema(),        &block_schema()};
  for (const Schema* schema : family_schemas()) all.push_back(schema);
  for (const Schema* schema : layer_schemas()) all.push_back(schema);
  return all;
}

}  // namespace

TEST_CASE("docs/reference.md is what the tables say") {
  // After a change of a table: build/foretrain check --reference > docs/reference.md
  CHECK(read_file_limited(FORETRAIN_SOURCE_DIR "/docs/reference.md") == reference_page());
}

TEST_CASE("each key of each table is described, and its default passes its own check") {
  std::set<const Schema*> done;
  for (const Schema* root : roots()) {
    visit_tables(*root, done, [](const Schema& schema) {
      CHECK_FALSE(schema.name.empty());
      CHECK_FALSE(schema.description.empty());
      std::set<std::string> names;
      for (const KeySpec& key : schema.keys) {
        INFO(schema.name << ": " << key.name);
        CHECK(names.insert(key.name).second);
        CHECK_FALSE(key.description.empty());
        CHECK_FALSE((key.required && !key.default_value.empty()));
        if (key.default_value.empty() || includes(key.type, Type::text)) continue;
        Value value;
        value.kind = ValueKind::scalar;
        value.text = key.default_value;
        Diagnostics diagnostics;
        check_value(value, key, diagnostics);
        CHECK(diagnostics.ok());
        CHECK(diagnostics.warnings().empty());
      }
    });
  }
  CHECK(done.size() > 20);
}
