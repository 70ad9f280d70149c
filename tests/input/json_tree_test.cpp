#include "sim/input/json_tree.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/random.hpp"

using namespace foretrain;

namespace {

std::string problem(const std::string& text) {
  Diagnostics diagnostics;
  const auto tree = JsonTree::parse(text, "f", diagnostics);
  CHECK(tree.has_value() == diagnostics.ok());
  return tree ? "" : diagnostics.errors()[0].text();
}

// The same value as another library reads it.
bool same(const JsonNode& node, const nlohmann::json& other) {
  if (node.is_object()) {
    if (!other.is_object() || node.size() != other.size()) return false;
    for (std::size_t i = 0; i < node.size(); ++i) {
      const std::string key(node[i].key());
      if (!other.contains(key) || !same(node[i], other[key])) return false;
    }
    return true;
  }
  if (node.is_array()) {
    if (!other.is_array() || node.size() != other.size()) return false;
    for (std::size_t i = 0; i < node.size(); ++i) {
      if (!same(node[i], other[i])) return false;
    }
    return true;
  }
  if (node.is_string()) return other.is_string() && node.text() == other.get_ref<const std::string&>();
  if (node.is_number()) return other.is_number() && node.number() == other.get<double>();
  if (node.is_boolean()) return other.is_boolean() && node.boolean() == other.get<bool>();
  return node.is_null() && other.is_null();
}

}  // namespace

TEST_CASE("every kind of JSON value is read") {
  const std::string text =
      " {\"a\": [1, -2, 0.5, 1e-3, 2E+2], \"b\": {\"c\": true, \"d\": false, \"e\": null}, \"f\": "
      "\"x\\n\\u00e9\\ud83d\\ude00\\/\","
      " \"empty\": [[], {}, \"\"], \"big\": 9223372036854775807, \"bigger\": 9223372036854775808, \"tiny\": "
      "1e-999} ";
  Diagnostics diagnostics;
  const auto tree = JsonTree::parse(text, "f", diagnostics);
  REQUIRE(tree);
  const JsonNode& root = tree->root();
  REQUIRE(root.is_object());
  CHECK(root.find("a")->size() == 5);
  CHECK((*root.find("a"))[1].integer() == -2);
  CHECK((*root.find("a"))[3].number() == 1e-3);
  CHECK_FALSE((*root.find("a"))[4].is_number_integer());
  CHECK(root.find("b")->find("c")->boolean());
  CHECK(root.find("b")->find("e")->is_null());
  CHECK(root.find("f")->text() == "x\n\xc3\xa9\xf0\x9f\x98\x80/");
  CHECK(root.find("big")->integer() == 9223372036854775807);
  CHECK_FALSE(root.find("bigger")->is_number_integer());
  CHECK(root.find("tiny")->number() == 0);
  CHECK(root.find("absent") == nullptr);
  CHECK(root.find("a")->find("b") == nullptr);
  CHECK(root.find("a")->text().empty());
  CHECK(same(root, nlohmann::json::parse(text)));
}

TEST_CASE("what is no JSON has a line, a column and a reason") {
  CHECK(problem("{\"a\": 1,\n \"b\": }") == "f:2:7: not valid JSON: no value begins here");
  CHECK(problem("{\"a\": 1, \"a\": 2}") == "f:1:10: not valid JSON: the key 'a' is a duplicate");
  CHECK(problem("[1, 2") == "f:1:6: not valid JSON: the text ends too early");
  CHECK(problem("[1 2]") == "f:1:4: not valid JSON: ',' or ']' belongs here");
  CHECK(problem("[1, 2]]") == "f:1:7: not valid JSON: text follows the end of the value");
  CHECK(problem("[1e999]") == "f:1:2: not valid JSON: the number '1e999' is out of range");
  CHECK(problem("") == "f:1:1: not valid JSON: the text ends too early");
  for (const std::string bad :
       {"[01]", "[.5]", "[1.]", "[+1]", "[1e]", "[nan]", "[inf]", "[0x1]", "[tru]", "{a: 1}", "{\"a\" 1}",
        "[1,]", "{\"a\": 1,}", "[\"a]", "[\"\\x\"]", "[\"\\ud800\"]", "[\"\n\"]", "['a']"}) {
    CHECK_MESSAGE(problem(bad) != "", bad);
    CHECK_MESSAGE(!nlohmann::json::accept(bad), bad);
  }
  CHECK(problem(std::string(64, '[') + std::string(64, ']')) == "");
  CHECK(problem(std::string(100'000, '[')) == "f:1:65: not valid JSON: nested deeper than 64 levels");
}

TEST_CASE("damaged texts are accepted exactly where another library accepts them") {
  const std::string text =
      "{\"key\": [1.5, -2e3, \"te\\u0041xt\", true, null], \"other\": {\"x\": [], \"y\": 0}}";
  RandomStream random(5);
  const std::string letters = "[]{}:,\"\\0-e.1 tnu";
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = text;
    for (int change = 0; change < 2; ++change) {
      damaged[random.next() % damaged.size()] = letters[random.next() % letters.size()];
    }
    Diagnostics diagnostics;
    const auto tree = JsonTree::parse(damaged, "f", diagnostics);
    const nlohmann::json other = nlohmann::json::parse(damaged, nullptr, false);
    const bool is_duplicate = !tree && diagnostics.errors()[0].what.find("duplicate") != std::string::npos;
    if (is_duplicate) continue;
    CHECK_MESSAGE(tree.has_value() == !other.is_discarded(), damaged);
    if (tree && !other.is_discarded()) CHECK_MESSAGE(same(tree->root(), other), damaged);
  }
}
