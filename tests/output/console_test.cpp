#include "sim/output/console.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "tests/app/subprocess.hpp"
#include "tests/output/example_result.hpp"
#include "tests/support/approx.hpp"

using foretrain::console_text;
using foretrain::ConsoleOptions;
using foretrain::Result;
using foretrain::ValidationSummary;
using foretrain::test::approx;
using foretrain::test::example_result;
using foretrain::test::TemporaryFolder;

namespace {

int widest(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  int width = 0;
  while (std::getline(lines, line)) width = std::max(width, foretrain::display_width(line));
  return width;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<Result> many_results() {
  std::vector<Result> results;
  for (const int workers : {1, 8, 64, 1024}) {
    for (const char* network : {"10", "25", "100"}) {
      Result result = example_result();
      result.scenario = "resnet50-" + std::to_string(workers) + "-gpus-" + network + "-gbit";
      result.workers = workers;
      result.units_per_second *= workers;
      results.push_back(result);
    }
  }
  return results;
}

}  // namespace

TEST_CASE("a person finds what counts, within 80 columns, with colour, signs and letters alike") {
  const Result result = example_result();
  for (const bool colour : {false, true}) {
    for (const bool unicode : {false, true}) {
      ConsoleOptions options;
      options.style = {80, colour, unicode};
      options.details = true;
      const std::string text = console_text({&result, 1}, options);
      CHECK(widest(text) <= 80);
      CHECK(has(text, "\x1b[") == colour);
      for (const char* part :
           {"Does a second node", "31.2 ms", "30.1-32.4", "16,410", "70 %", "network",
            "25 Gbit/s would hide them", "not validated", "extrapolated:", "warning:", "network of 25 Gbit/s",
            "1.36 x", "225,180 updates", "cluster.network.latency", "assumed (default)"}) {
        CAPTURE(part);
        CHECK(has(text, part));
      }
      if (!unicode) {
        for (const char c : text) CHECK(static_cast<unsigned char>(c) < 0x80);
      }
    }
  }
}

TEST_CASE("several results are one table with a line each") {
  const std::vector<Result> results = many_results();
  ConsoleOptions options;
  const std::string text = console_text(results, options);
  CHECK(widest(text) <= 80);
  CHECK(has(text, "1024"));
  CHECK(has(text, "and 10 more") == false);  // one verdict that all share needs no names
  std::istringstream lines(text);
  std::string line;
  int rows = 0;
  while (std::getline(lines, line)) rows += has(line, "31.2 ms");
  CHECK(rows == 12);
  options.style.width = 120;
  CHECK(has(console_text(results, options), "resnet50-1024-gpus-100-gbit"));
}

TEST_CASE("the values of a sweep stand in columns of their own, within 80 columns") {
  const std::vector<Result> results = many_results();
  ConsoleOptions options;
  options.style.colour = true;
  options.labels.headings = {"nodes", "bandwidth"};
  for (std::size_t i = 0; i < results.size(); ++i) {
    options.labels.rows.push_back({std::to_string(i), "100.25 Gbit/s"});
    options.names.push_back("point " + std::to_string(i));
  }
  const std::string text = console_text(results, options);
  CHECK(widest(text) <= 80);
  CHECK(has(text, "bandwidth"));
  CHECK_FALSE(has(text, "resnet50-8-gpus"));
}

TEST_CASE("what differs from one result to the next carries the names of its scenarios") {
  std::vector<Result> results = many_results();
  results[0].limiting.text = "The GPU limits.";
  const std::string text = console_text(results, {});
  CHECK(has(text, "resnet50-1-gpus-10-gbit: The GPU limits."));
  CHECK(has(text, "and 9 more: "));
}

TEST_CASE("memory that does not suffice and a cut short result are said") {
  Result result = example_result();
  result.memory.fits = false;
  result.complete = false;
  const std::string text = console_text({&result, 1}, {});
  CHECK(has(text, "does not fit"));
  CHECK(has(text, "the result is incomplete"));
}

TEST_CASE("shares add up to the width and follow the parts") {
  CHECK(foretrain::shares({1, 1, 1}, 10) == std::vector<int>{4, 3, 3});
  CHECK(foretrain::shares({0, 0}, 10) == std::vector<int>{0, 0});
  CHECK(foretrain::shares({0.96, 0.04}, 10) == std::vector<int>{10, 0});
  CHECK(foretrain::shares({0.95, 0.05}, 20) == std::vector<int>{19, 1});
}

TEST_CASE("text is wrapped and cut by what is seen") {
  CHECK(foretrain::display_width("\x1b[31m\u2588\u2588\x1b[0m x") == 4);
  CHECK(foretrain::shortened("abcdef", 4, {80, false, false}) == "abc~");
  CHECK(foretrain::shortened("\u00e9\u00e9\u00e9\u00e9", 3, {80, false, true}) == "\u00e9\u00e9\u2026");
  CHECK(foretrain::shortened("abc", 3, {}) == "abc");
  CHECK(foretrain::wrapped("one two three", 9, "- ", "  ") == "- one two\n  three\n");
  CHECK(foretrain::wrapped("", 9, "x", "") == "x\n");
}

TEST_CASE("a table breaks the cells of one column where the terminal is narrow, and loses nothing") {
  using Align = foretrain::TextTable::Align;
  foretrain::TextTable table({Align::left, Align::left});
  table.add({"twice the bandwidth", "network hardware"});
  table.add({"accumulation", "half as many updates an epoch; accuracy not predicted"});
  CHECK(table.text("  ", 48, 1) ==
        "  twice the bandwidth  network hardware\n"
        "  accumulation         half as many updates an\n"
        "                       epoch; accuracy not\n"
        "                       predicted\n");
  CHECK(table.text("  ", 200, 1) == table.text("  "));
}

TEST_CASE("the line of the last validation sums up what lies in validation/") {
  const TemporaryFolder folder;
  std::vector<std::string> unreadable;
  CHECK_FALSE(foretrain::read_validation_summary({folder.path("")}, unreadable));
  CHECK_FALSE(foretrain::read_validation_summary({folder.path("missing")}, unreadable));
  folder.write("live-gpu/a.json", R"({"schema": "foretrain/validation/1", "rows": [{"error": 0.9}],
    "summary": {"rows": 30, "mean_abs_error": 0.01, "max_abs_error": 0.02}})");
  folder.write("live-gpu/b.json", R"({"schema": "foretrain/validation/1",
    "summary": {"rows": 10, "mean_abs_error": 0.03, "max_abs_error": 0.05}, "rows": [],
    "by_kind": {"images, one GPU": {"rows": 6, "mean_abs_error": 0.01, "max_abs_error": 0.02},
                "sequences, one GPU": {"rows": 4, "mean_abs_error": 0.06, "max_abs_error": 0.05}, "bad": 3}})");
  folder.write("live-gpu/run.json", R"({"schema": "foretrain/run/1"})");
  folder.write("live-gpu/other.json", "[1, 2]");
  folder.write("live-gpu/note.txt", "not JSON");
  CHECK(unreadable.empty());
  const auto summary =
      foretrain::read_validation_summary({folder.path("missing"), folder.path("")}, unreadable);
  REQUIRE(summary);
  CHECK(summary->rows == 40);
  CHECK(summary->mean_abs_error == approx(0.015));
  CHECK(summary->max_abs_error == 0.05);
  ConsoleOptions options;
  options.validation = summary;
  Result result = example_result();
  const std::string other = console_text({&result, 1}, options);
  CHECK(has(other, "not validated (images, several nodes)\n"));
  CHECK(has(other, "last validated, all kinds: mean 1.5 %, worst 5.0 %, 40 rows\n"));
  result.kind = "";  // of an older version
  CHECK(has(console_text({&result, 1}, options), "last validated: mean 1.5 %, worst 5.0 %, 40 rows\n"));
  std::vector<Result> two{result, result};
  two[0].kind = "sequences, one GPU";
  two[1].kind = "images, one GPU";
  const std::string lines = console_text(two, options);
  CHECK(has(lines,
            "last validated (sequences, one GPU): mean 6.0 %, worst 5.0 %, 4 rows\n"
            "last validated (images, one GPU): mean 1.0 %, worst 2.0 %, 6 rows\n"));
  CHECK_FALSE(has(lines, "all kinds"));
  two[1].kind = "captured sequences of unequal lengths, workers of a node on processors, parameter_server";
  options.style.width = 60;
  CHECK(widest(console_text({&two[1], 1}, options)) <= 80);

  folder.write("broken.json", "{");
  folder.write("empty.json", R"({"schema": "foretrain/validation/1", "summary": {"rows": "many"}})");
  CHECK(foretrain::read_validation_summary({folder.path("")}, unreadable)->rows == 40);
  CHECK(unreadable.size() == 2);
}
