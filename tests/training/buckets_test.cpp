#include "sim/training/buckets.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;

namespace {

Model list_of(std::initializer_list<std::int64_t> elements) {
  Model model;
  for (std::int64_t n : elements) {
    Parameter parameter;
    parameter.elements = n;
    model.parameters.push_back(parameter);
  }
  return model;
}

std::vector<std::int64_t> sizes(const std::vector<Bucket>& buckets) {
  std::vector<std::int64_t> out;
  for (const Bucket& bucket : buckets) out.push_back(bucket.bytes.count());
  return out;
}

}  // namespace

// Caps 10 (first) and 30 bytes, fp32. In reverse: 1 -> 4 bytes, 2 -> 12 >= 10 closes; 5 -> 20, 4 -> 36 >= 30
// closes; 3 -> 12 stays open and is the last.
TEST_CASE("buckets close once their size reaches the cap, and a parameter is never split") {
  const auto buckets = ddp_buckets(list_of({3, 4, 5, 2, 1}), Bytes(10), Bytes(30), Precision::fp32);
  CHECK(sizes(buckets) == std::vector<std::int64_t>{12, 36, 12});
  CHECK(buckets[0].parameters == std::vector<int>{4, 3});
  CHECK(buckets[1].parameters == std::vector<int>{2, 1});
}

TEST_CASE("gradients in half precision fill half the bytes") {
  CHECK(sizes(ddp_buckets(list_of({3, 4, 5, 2, 1}), Bytes(10), Bytes(30), Precision::bf16)) ==
        std::vector<std::int64_t>{16, 14});
}

TEST_CASE("one large parameter is one bucket; no parameters give none; a cap of zero is an error") {
  CHECK(sizes(ddp_buckets(list_of({1000}), Bytes(1), Bytes(1), Precision::fp32)) ==
        std::vector<std::int64_t>{4000});
  CHECK(ddp_buckets(list_of({}), Bytes(1), Bytes(1), Precision::fp32).empty());
  CHECK_THROWS_AS(ddp_buckets(list_of({1}), Bytes(0), Bytes(1), Precision::fp32), Error);
}

TEST_CASE("the buckets of ResNet-18 in fp32") {
  const Model model = test::resnet18();
  CHECK(model.parameter_count() == 11'689'512);
  CHECK(sizes(ddp_buckets(model, Bytes(1 << 20), Bytes(25 << 20), Precision::fp32)) ==
        std::vector<std::int64_t>{2'052'000, 28'852'224, 15'853'824});
}
