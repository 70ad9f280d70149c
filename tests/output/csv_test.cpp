#include "sim/output/csv.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/output/json.hpp"
#include "tests/output/example_result.hpp"

using foretrain::Result;
using foretrain::test::example_result;
using nlohmann::json;

namespace {

// Reads RFC 4180 back.
std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string cell;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        cell += c;
        ++i;
      } else if (c == '"') {
        quoted = false;
      } else {
        cell += c;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',' || c == '\n') {
      row.push_back(cell);
      cell.clear();
      if (c == '\n') {
        rows.push_back(row);
        row.clear();
      }
    } else {
      cell += c;
    }
  }
  CHECK(row.empty());
  CHECK_FALSE(quoted);
  return rows;
}

std::string csv_of(std::span<const Result> results) {
  std::string text;
  foretrain::write_csv(results, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace

TEST_CASE("CSV and JSON say the same, member by member") {
  std::vector<Result> results{example_result(), Result(), example_result()};
  results[1].scenario = "bare";
  results[2].limiting.text = "with \"quotes\", commas,\nand lines";
  const auto rows = rows_of(csv_of(results));
  REQUIRE(rows.size() == results.size() + 1);
  for (std::size_t r = 0; r < results.size(); ++r) {
    std::string text;
    foretrain::write_json({&results[r], 1}, [&](std::string_view piece) { text += piece; });
    const json object = json::parse(text);
    REQUIRE(rows[r + 1].size() == rows[0].size());
    for (std::size_t c = 0; c < rows[0].size(); ++c) {
      std::string pointer = '/' + rows[0][c];
      std::replace(pointer.begin(), pointer.end(), '.', '/');
      const std::string& cell = rows[r + 1][c];
      CAPTURE(pointer);
      const json::json_pointer at(pointer);
      if (!object.contains(at)) {  // below a member that is null
        CHECK(cell.empty());
        CHECK(object[json::json_pointer('/' + rows[0][c].substr(0, rows[0][c].find('.')))].is_null());
        continue;
      }
      const json value = object[at];
      if (value.is_null()) {
        CHECK(cell.empty());
      } else if (value.is_string()) {
        CHECK(value == cell);
      } else if (value.is_array()) {
        CHECK(std::to_string(value.size()) == cell);
      } else {
        CHECK(value == json::parse(cell));
      }
    }
  }
}

TEST_CASE("the columns do not depend on the results") {
  const Result bare, whole = example_result();
  const std::string a = csv_of({&bare, 1}), b = csv_of({&whole, 1}), none = csv_of({});
  CHECK(a.substr(0, a.find('\n')) == b.substr(0, b.find('\n')));
  CHECK(none == a.substr(0, a.find('\n') + 1));
}
