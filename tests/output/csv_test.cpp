#include "sim/output/csv.hpp"

#include <doctest/doctest.h>

#include "tests/output/example_result.hpp"
#include "tests/support/result_checks.hpp"

using foretrain::Result;
using foretrain::test::example_result;

namespace {

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
  foretrain::test::check_csv_against_json(results);
}

TEST_CASE("the columns do not depend on the results") {
  const Result bare, whole = example_result();
  const std::string a = csv_of({&bare, 1}), b = csv_of({&whole, 1}), none = csv_of({});
  CHECK(a.substr(0, a.find('\n')) == b.substr(0, b.find('\n')));
  CHECK(none == a.substr(0, a.find('\n') + 1));
}
