#include "sim/training/parameter_list.hpp"

#include <doctest/doctest.h>

using namespace foretrain;

TEST_CASE("a list of parameters is enough for buckets") {
  const Model listed = list_of_parameters("m", {{"a.weight", {3, 4}, {}}, {"a.bias", {3}, {}}});
  CHECK(listed.parameter_count() == 15);
  CHECK_FALSE(listed.is_graph());
  const Model counted = list_of_parameters("m", 60'880'896);
  CHECK(counted.parameter_count() == 60'880'896);
  CHECK(counted.parameters[0].elements == 262'144);
  CHECK(counted.parameters.back().elements == 60'880'896 % 262'144);
  CHECK(list_of_parameters("m", std::int64_t{1} << 40).parameters.size() == 4096);
  CHECK_THROWS_AS(list_of_parameters("m", 0), Error);
  CHECK_THROWS_AS(list_of_parameters("m", {{"a", {3}, {}}, {"a", {0}, {}}}), Error);
}
