#include "sim/input/schema.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/input/fields.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

const Schema& wire_schema() {
  static const Schema schema{
      .name = "wire",
      .description = "a test",
      .keys = {
          {.name = "bandwidth",
           .type = Type::rate,
           .description = "line rate",
           .required = true,
           .example = "10 Gbit/s",
           .above = 0,
           .usual_low = 1e8 / 8,
           .usual_high = 400e9 / 8},
          {.name = "latency", .type = Type::time, .description = "of a link", .default_value = "5 us"},
          {.name = "transport", .type = Type::text, .description = "protocol", .allowed = {"tcp", "rdma"}}}};
  return schema;
}

const Schema& test_schema() {
  static const Schema schema{
      .name = "test",
      .description = "a test",
      .keys =
          {{.name = "count", .type = Type::integer, .description = "how many", .at_least = 1, .at_most = 8},
           {.name = "share", .type = Type::number, .description = "a fraction", .at_least = 0, .at_most = 1},
           {.name = "fast", .type = Type::boolean, .description = "a switch"},
           {.name = "cap",
            .type = Type::bytes,
            .description = "a size",
            .default_value = "25 MiB",
            .usual_low = 65536,
            .usual_high = 1073741824},
           {.name = "wire", .type = Type::map, .description = "a map", .keys = &wire_schema()},
           {.name = "wires", .type = Type::list, .description = "a list", .items = &wire_schema()},
           {.name = "kind",
            .type = Type::text,
            .description = "a word",
            .allowed = {"ddp"},
            .not_modelled = {{"fsdp", "ddp"}}},
           {.name = "either", .type = Type::text | Type::map, .description = "a word or a map"},
           {.name = "every", .type = Type::interval, .description = "epochs"},
           {.name = "price", .type = Type::price, .description = "a price"},
           {.name = "later",
            .type = Type::anything,
            .description = "known",
            .not_simulated = "is not simulated yet: leave it out"}},
      .not_modelled = {{"pipeline", "ddp"}}};
  return schema;
}

struct Checked {
  std::string errors, warnings;
};

Checked check(const std::string& text) {
  Diagnostics diagnostics;
  const auto root = parse_document(text, "f", diagnostics);
  REQUIRE(root);
  check_map(*root, test_schema(), diagnostics);
  Checked out;
  for (const Diagnostic& finding : diagnostics.errors()) out.errors += finding.text() + "\n";
  for (const Diagnostic& finding : diagnostics.warnings()) out.warnings += finding.text() + "\n";
  return out;
}

std::string errors(const std::string& text) {
  return check(text).errors;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("unknown keys name their place, what is allowed and the nearest") {
  CHECK(errors("cuont: 1\n") ==
        "f:1:1: unknown key 'cuont' in test: allowed are count, share, fast, cap, wire, wires, kind, either, "
        "every, price, later, did you mean 'count'?\n");
  CHECK(errors("wire: { bandwidth: 1 Gbit/s, latncy: 1 us }\n") ==
        "f:1:30: unknown key 'latncy' in wire: allowed are bandwidth, latency, transport, did you mean "
        "'latency'?\n");
}

TEST_CASE("missing keys are named with what they are") {
  CHECK(errors("wire: { latency: 1 us }\n") ==
        "f:1:7: wire has no 'bandwidth', which is required (line rate)\n");
}

TEST_CASE("wrong types say what is allowed") {
  CHECK(errors("count: [1]\n") == "f:1:8: count: is a list: it takes a whole number\n");
  CHECK(errors("count: 1.5\n") == "f:1:8: count: '1.5' is not a whole number\n");
  CHECK(contains(errors("count: 010\n"), "f:1:8: count: '010' has a leading zero"));
  CHECK(contains(errors("share: 00.5\n"), "leading zero"));
  CHECK(contains(errors("count: 0x10\n"), "is not a whole number"));
  CHECK(contains(errors("count: 99999999999999999999\n"), "too large"));
  CHECK(errors("count: \"4\"\n") ==
        "f:1:8: count: \"4\" is quoted and therefore text: write it without quotes\n");
  CHECK(errors("count:\n") == "f:1:1: count: is nothing: it takes a whole number\n");
  CHECK(errors("fast: yes\n") == "f:1:7: fast: 'yes' is not true or false; did you mean 'true'?\n");
  CHECK(errors("fast: true\n") == "");
  CHECK(errors("wire: 10 Gbit/s\n") ==
        "f:1:7: wire: is a single value ('10 Gbit/s'): it takes a map of keys\n");
  CHECK(
      contains(errors("wires: [{ bandwidth: 1 Gbit/s }, 7]\n"), "f:1:34: wires: an item is a single value"));
  CHECK(errors("either: word\n") == "");
  CHECK(errors("either: { any: 1 }\n") == "");
  CHECK(errors("either: [1]\n") == "f:1:9: either: is a list: it takes a word or a map of keys\n");
}

TEST_CASE("units are demanded and their kinds are kept apart") {
  CHECK(contains(errors("cap: 25\n"), "f:1:6: cap: '25' has no unit"));
  CHECK(contains(errors("cap: 25 Mb\n"), "did you mean 'MB'?"));
  CHECK(contains(errors("wire: { bandwidth: 10 }\n"), "f:1:20: bandwidth: '10' has no unit"));
  CHECK(contains(errors("wire: { bandwidth: 10 GB }\n"),
                 "f:1:20: bandwidth: '10 GB' has the unknown unit 'GB'"));
  CHECK(contains(errors("every: 1\n"), "every: '1' has no unit: write it as in '1 epoch'"));
  CHECK(contains(errors("every: 1 lap\n"), "unknown unit 'lap': allowed are epoch, update and times"));
  CHECK(errors("every: 1 epoch\n") == "");
  CHECK(errors("price: 2.50 USD/gpu-hour\n") == "");
  CHECK(contains(errors("price: 2.50\n"), "is not a price"));
  CHECK(contains(errors("price: 2.50 usd/gpu-hour\n"), "unknown currency"));
}

TEST_CASE("values out of bounds are errors, implausible ones hints") {
  CHECK(errors("count: 9\n") == "f:1:8: count: '9' is out of range: it must be at most 8\n");
  CHECK(errors("count: 0\n") == "f:1:8: count: '0' is out of range: it must be at least 1\n");
  CHECK(errors("wire: { bandwidth: 0 Gbit/s }\n") ==
        "f:1:20: bandwidth: '0 Gbit/s' is out of range: it must be above 0 bit/s\n");
  CHECK(check("wire: { bandwidth: 100 GB/s }\n").errors == "");
  CHECK(check("wire: { bandwidth: 100 GB/s }\n").warnings ==
        "f:1:20: bandwidth: '100 GB/s' is implausible (usual: 100 Mbit/s to 400 Gbit/s); did you mean '100 "
        "Gbit/s'?\n");
  CHECK(contains(check("wire: { bandwidth: 10 Mbit/s }\n").warnings, "did you mean '10 Gbit/s'?"));
  CHECK(contains(check("cap: 25 KiB\n").warnings, "usual: 64 KiB to 1 GiB); did you mean '25 MiB'?"));
  CHECK(check("cap: 25 MiB\nwire: { bandwidth: 25 GB/s }\n").warnings == "");
}

TEST_CASE("what is not modelled or not simulated yet is known") {
  CHECK(errors("kind: fsdp\n") == "f:1:7: kind: 'fsdp' is not modelled yet; nearest is 'ddp'\n");
  CHECK(errors("kind: dpp\n") == "f:1:7: kind: 'dpp' is unknown: allowed are ddp, did you mean 'ddp'?\n");
  CHECK(errors("pipeline: 4\n") == "f:1:1: 'pipeline' is not modelled yet; nearest is 'ddp'\n");
  CHECK(errors("later: { a: 1 }\n") == "f:1:8: later: is not simulated yet: leave it out\n");
}

TEST_CASE("all errors are reported at once, in the order of the file") {
  const std::string all = errors("count: x\nwire: { bandwidth: 1, transport: tpc }\nspeed: 1\n");
  CHECK(contains(all, "f:1:8: "));
  CHECK(contains(all, "f:2:20: "));
  CHECK(contains(all, "f:2:34: transport: 'tpc' is unknown: allowed are tcp, rdma, did you mean 'tcp'?"));
  CHECK(contains(all, "f:3:1: "));
  CHECK(all.find("f:1:8") < all.find("f:2:20"));
}

TEST_CASE("fields read what stands in the file, else the default of the table") {
  Diagnostics diagnostics;
  const auto root =
      parse_document("count: 3\nfast: nonsense\nwire: { bandwidth: 8 Gbit/s }\n", "f", diagnostics);
  REQUIRE(root);
  const Fields fields(&*root, test_schema());
  CHECK(fields.integer("count") == 3);
  CHECK(fields.bytes("cap") == Bytes(26'214'400));
  CHECK_FALSE(fields.boolean("fast").has_value());
  CHECK_FALSE(fields.number("share").has_value());
  CHECK(fields.fields("wire").rate("bandwidth")->bytes_per_second() == approx(1e9));
  CHECK(fields.fields("wire").time("latency") == Time::microseconds(5));
  CHECK(fields.where("count").line == 1);
  CHECK(Fields(nullptr, test_schema()).bytes("cap") == Bytes(26'214'400));
}
