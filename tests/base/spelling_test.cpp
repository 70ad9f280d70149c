#include "sim/base/spelling.hpp"

#include <doctest/doctest.h>

#include <string>

using foretrain::closest_name;
using foretrain::did_you_mean;
using foretrain::edit_distance;

TEST_CASE("edit distance counts insertions, deletions, substitutions and swaps") {
  CHECK(edit_distance("simulate", "simulate") == 0);
  CHECK(edit_distance("simulat", "simulate") == 1);
  CHECK(edit_distance("simmulate", "simulate") == 1);
  CHECK(edit_distance("sinulate", "simulate") == 1);
  CHECK(edit_distance("simualte", "simulate") == 1);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("per_worker", "Per-Worker") == 0);
}

TEST_CASE("the nearest name is suggested, a far one is not") {
  const std::vector<std::string> names{"simulate", "sweep", "check", "list"};
  CHECK(closest_name("simlate", names) == "simulate");
  CHECK(closest_name("lsit", names) == "list");
  CHECK_FALSE(closest_name("banana", names));
  CHECK_FALSE(closest_name("", names));
  CHECK_FALSE(closest_name(std::string(100000, 'x'), names));
  CHECK(did_you_mean("chekc", names) == ", did you mean 'check'?");
  CHECK(did_you_mean("zzzzzz", names).empty());
}
