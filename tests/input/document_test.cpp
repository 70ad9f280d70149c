#include "sim/input/document.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/random.hpp"

using namespace foretrain;

namespace {

// All findings of reading a text, a line each.
std::string findings(const std::string& text, const DocumentLimits& limits = {}) {
  Diagnostics diagnostics;
  parse_document(text, "file.yaml", diagnostics, limits);
  std::string all;
  for (const Diagnostic& finding : diagnostics.errors()) all += finding.text() + "\n";
  return all;
}

Value read(const std::string& text) {
  Diagnostics diagnostics;
  const std::optional<Value> value = parse_document(text, "file.yaml", diagnostics);
  REQUIRE(diagnostics.ok());
  return *value;
}

}  // namespace

TEST_CASE("a document is a tree of texts, each with its place") {
  const Value root = read(
      "# question\n"
      "model: resnet50\n"
      "batch: { per_worker: 010, odd: \"5\" }\n"
      "list:\n"
      "  - yes\n"
      "  - [1, 25 MiB]\n"
      "nothing:\n"
      "last: 1\n");
  REQUIRE(root.is_map());
  CHECK(root.members.size() == 5);
  CHECK(root.find("model")->text == "resnet50");
  CHECK(root.find("model")->line == 2);
  CHECK(root.find("model")->column == 8);
  CHECK(root.find_member("model")->where.column == 1);
  const Value& batch = *root.find("batch");
  CHECK(batch.find("per_worker")->text == "010");
  CHECK_FALSE(batch.find("per_worker")->quoted);
  CHECK(batch.find("odd")->quoted);
  CHECK(batch.line == 3);
  CHECK(batch.column == 8);
  CHECK(root.find("list")->items[0].text == "yes");
  CHECK(root.find("list")->items[1].items[1].text == "25 MiB");
  CHECK(root.find("list")->items[1].items[1].column == 9);
  CHECK(root.find("nothing")->is_null());
  CHECK(root.find("nothing")->line == 7);
  CHECK(root.find("absent") == nullptr);
}

TEST_CASE("duplicate keys are an error at the second") {
  CHECK(findings("a: 1\nb: 2\na: 3\n") ==
        "file.yaml:3:1: the key 'a' is a duplicate: it stands in line 1 already\n");
  CHECK(findings("m: { x: 1, x: 2, y: 1, y: 1 }\n") ==
        "file.yaml:1:12: the key 'x' is a duplicate: it stands in line 1 already\n"
        "file.yaml:1:24: the key 'y' is a duplicate: it stands in line 1 already\n");
}

TEST_CASE("anchors, aliases, tags and second documents are refused with their place") {
  CHECK(findings("a: &x 1\nb: *x\n").find("file.yaml:1:4: anchors (&x) are not allowed") == 0);
  CHECK(findings("a: &x [*x]\n").find("file.yaml:1:4: anchors") == 0);
  CHECK(findings("a: 1\nb: !!int 3\n").find("file.yaml:2:4: tags (tag:yaml.org,2002:int) are not") == 0);
  CHECK(findings("a: 1\n---\nb: 2\n").find("file.yaml:2:1: a second document begins here") == 0);
  CHECK(findings("a: 1\n...\n") == "");
  CHECK(findings("--- \na: 1\n") == "");
}

TEST_CASE("what is no YAML has a place and a reason") {
  CHECK(findings("") == "file.yaml: is empty\n");
  CHECK(findings("# only a comment\n") == "file.yaml: is empty\n");
  CHECK(findings("a: [1, 2\n").find("file.yaml:2:1: not valid YAML: ") == 0);
  CHECK(findings("a: 1\n b: 2\n").find("file.yaml:2:3: not valid YAML: ") == 0);
  CHECK(findings("[a]: 1\n").find("file.yaml:1:1: a list cannot be a key") == 0);
  CHECK(findings("a: \"\xff\"\n").find("file.yaml:1:5: the byte 0xff is no text in UTF-8") == 0);
  CHECK(findings(std::string("a\0b", 3)).find("file.yaml:1:2: the byte 0x00") == 0);
}

TEST_CASE("size, depth and number of values are limited") {
  auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  CHECK(findings(nested(64)) == "");
  CHECK(findings(nested(65)) == "file.yaml:1:65: nested deeper than 64 levels\n");
  CHECK(findings(nested(100'000)).find("nested deeper than 64 levels") != std::string::npos);
  // Without the parser's looking ahead over all of it, which takes a minute and gigabytes.
  CHECK(findings(std::string(16'000'000, '[')) == "file.yaml:1:1001: nested deeper than 64 levels\n");
  CHECK(findings(std::string(100'000, '[')) != "");
  CHECK(findings("[1, 2, 3, 4]", {.nodes = 4}).find("more than 4 values") != std::string::npos);
  CHECK(findings("[1, 2, 3, 4]", {.bytes = 4}) == "file.yaml: has 12 bytes: at most 4 are read\n");
}

TEST_CASE("a truncated or damaged document is a finding or a tree, never a crash") {
  const std::string text =
      "model: resnet50 # c\nbatch: { per_worker: 64 }\nlist:\n  - [1, \"two\", 'three']\n  - |\n    block\n"
      "  - key: value\n    other: { a: [b, c], d: e }\n";
  for (std::size_t length = 0; length <= text.size(); ++length) findings(text.substr(0, length));
  RandomStream random(7);
  const std::string letters = "[]{}:,-#&*!|>'\"%@` \n\tax1";
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = text;
    for (int change = 0; change < 4; ++change) {
      damaged[random.next() % damaged.size()] = letters[random.next() % letters.size()];
    }
    findings(damaged);
  }
}

TEST_CASE("--set replaces or adds a value and is named by what it breaks") {
  Value root = read("cluster: { nodes: 2 }\nlist: [{ a: 1 }, { a: 2 }]\nstrategy: ddp\n");
  Diagnostics diagnostics;
  set_value(root, "cluster.nodes", "4", "--set cluster.nodes=4", diagnostics);
  set_value(root, "cluster.network.bandwidth", "25 Gbit/s", "--set cluster.network.bandwidth=25 Gbit/s",
            diagnostics);
  set_value(root, "list.1.a", "{ b: 7 }", "--set list.1.a={ b: 7 }", diagnostics);
  set_value(root, "strategy.kind", "independent", "--set strategy.kind=independent", diagnostics);
  CHECK(diagnostics.ok());
  CHECK(root.find("cluster")->find("nodes")->text == "4");
  CHECK(root.find("cluster")->find("network")->find("bandwidth")->text == "25 Gbit/s");
  CHECK(root.find("cluster")->find("network")->find("bandwidth")->where().file ==
        "--set cluster.network.bandwidth=25 Gbit/s");
  CHECK(root.find("list")->items[1].find("a")->find("b")->text == "7");
  CHECK(root.find("strategy")->find("kind")->text == "independent");
  set_value(root, "list.2.a", "1", "--set list.2.a=1", diagnostics);
  set_value(root, "list.x", "1", "--set list.x=1", diagnostics);
  set_value(root, "cluster..nodes", "1", "--set cluster..nodes=1", diagnostics);
  set_value(root, "cluster.nodes", "[1", "--set cluster.nodes=[1", diagnostics);
  REQUIRE(diagnostics.error_count() == 4);
  CHECK(diagnostics.errors()[0].text() ==
        "--set list.2.a=1: '2' is no item of a list of 2: items count from 0");
}

TEST_CASE("the question of a scenario is its first comment line") {
  CHECK(first_comment("# Does it pay?\nmodel: x\n") == "Does it pay?");
  CHECK(first_comment("\n#\n## Second\n") == "Second");
  CHECK(first_comment("model: x # no\n# late\n") == "");
}

TEST_CASE("findings are sorted by place and thrown as one error") {
  Diagnostics diagnostics;
  diagnostics.error({"f", 3, 1}, "third");
  diagnostics.error({"f", 1, 9}, "second");
  diagnostics.error({"f", 1, 2}, "first");
  diagnostics.error({"f", 1, 2}, "first");
  diagnostics.warning({"f", 1, 1}, "hint");
  CHECK(diagnostics.error_count() == 3);
  try {
    diagnostics.throw_errors();
    FAIL("nothing thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(std::string(error.what()) == "f:1:2: first\nf:1:9: second\nf:3:1: third");
  }
}

TEST_CASE("files that cannot be read are findings") {
  Diagnostics diagnostics;
  CHECK_FALSE(read_document("/nonexistent/file.yaml", diagnostics));
  CHECK_FALSE(read_document("/", diagnostics));
  REQUIRE(diagnostics.error_count() == 2);
  CHECK(diagnostics.errors()[0].text() == "/nonexistent/file.yaml: there is no such file");
  CHECK(diagnostics.errors()[1].text() == "/: is a folder, not a file");
  CHECK_THROWS_AS(read_file_limited("/dev/zero", 1000), Error);
}
