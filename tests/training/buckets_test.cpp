#include "sim/training/buckets.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using foretrain::test::approx;

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

Fusion fusion_of(FusionKind kind) {
  Fusion fusion;
  fusion.kind = kind;
  return fusion;
}

// Of a backward pass that makes one parameter's gradient an item, the last registered first, an item a
// second.
GradientOrder plain_order(const Model& model) {
  GradientOrder order;
  const int count = static_cast<int>(model.parameters.size());
  for (int p = 0; p < count; ++p) {
    order.completing.push_back(count - 1 - p);
    order.item_end.push_back(p + 1.0);
  }
  return order;
}

// Every element lies in exactly one bucket, in reverse registration order; bytes are those of the elements;
// no bucket leaves before its gradients are complete, or before the one in front of it.
void check_buckets(const Model& model, const std::vector<Bucket>& buckets, const GradientOrder& order) {
  std::vector<std::pair<int, std::int64_t>> all;  // parameter, elements
  int before = 0;
  for (const Bucket& bucket : buckets) {
    REQUIRE_FALSE(bucket.parameters.empty());
    std::int64_t elements = -bucket.skipped - bucket.left;
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      const int p = bucket.parameters[i];
      const bool first = i == 0, last = i + 1 == bucket.parameters.size();
      const std::int64_t whole = model.parameters[static_cast<std::size_t>(p)].elements;
      elements += whole;
      const std::int64_t from = first ? bucket.skipped : 0, to = whole - (last ? bucket.left : 0);
      CHECK(from < to);
      const std::int64_t seen = !all.empty() && all.back().first == p ? all.back().second : 0;
      CHECK(from == seen);
      if (seen > 0) all.pop_back();
      all.emplace_back(p, to);
      CHECK(bucket.ready >= order.completing[static_cast<std::size_t>(p)]);
    }
    CHECK(bucket.bytes.count() == 4 * elements);
    CHECK(elements > 0);
    CHECK(bucket.ready >= before);
    before = bucket.ready;
  }
  std::vector<std::pair<int, std::int64_t>> expected;
  for (int p = static_cast<int>(model.parameters.size()) - 1; p >= 0; --p)
    expected.emplace_back(p, model.parameters[static_cast<std::size_t>(p)].elements);
  CHECK(all == expected);
}

}  // namespace

TEST_CASE("whatever the fusion, every element of every gradient lies in exactly one bucket") {
  RandomStream random(3, {0});
  for (int round = 0; round < 60; ++round) {
    Model model;
    const auto count = 1 + random.next() % 30;
    for (std::uint64_t i = 0; i < count; ++i) {
      Parameter parameter;
      parameter.elements = 1 + static_cast<std::int64_t>(random.next() % (round % 2 ? 50 : 100'000));
      model.parameters.push_back(parameter);
    }
    const GradientOrder order = plain_order(model);
    Fusion fusion;
    fusion.bucket = fusion.first_bucket = fusion.threshold =
        Bytes(1 + static_cast<std::int64_t>(random.next() % 100'000));
    fusion.cycle = Time::seconds(0.3 + 3 * random.uniform());
    fusion.packs = 1 + static_cast<int>(random.next() % 9);
    fusion.max_bytes = Bytes(1 + static_cast<std::int64_t>(random.next() % 100));
    fusion.max_group = 1 + static_cast<int>(random.next() % 5);
    for (FusionKind kind : {FusionKind::buckets, FusionKind::horovod, FusionKind::packs, FusionKind::groups,
                            FusionKind::none}) {
      fusion.kind = kind;
      check_buckets(model, fuse(model, fusion, Precision::fp32, order), order);
    }
  }
}

TEST_CASE("a fixed number of packs of equal size, whatever the parameters") {
  const Model model = list_of({7, 1, 100, 2, 10});  // 120 elements
  const GradientOrder order = plain_order(model);
  Fusion fusion = fusion_of(FusionKind::packs);
  for (int packs : {1, 2, 4, 7, 120}) {
    fusion.packs = packs;
    const auto buckets = fuse(model, fusion, Precision::fp32, order);
    REQUIRE(buckets.size() == static_cast<std::size_t>(packs));
    for (const Bucket& bucket : buckets) {
      CHECK(bucket.bytes.count() >= 4 * (120 / packs));
      CHECK(bucket.bytes.count() <= 4 * ((120 + packs - 1) / packs));
    }
  }
  fusion.packs = 1000;  // no pack is empty
  CHECK(fuse(model, fusion, Precision::fp32, order).size() == 120);
  // A pack within one parameter: elements 30 to 60 of all; 10 + 2 lie before the parameter of 100.
  fusion.packs = 4;
  const auto four = fuse(model, fusion, Precision::fp32, order);
  CHECK(four[1].parameters == std::vector<int>{2});
  CHECK(four[1].skipped == 18);
  CHECK(four[1].left == 52);
  CHECK(four[1].ready == 2);
  CHECK(four[3].parameters == std::vector<int>{2, 1, 0});
  // Large ones are cut at whole words, and stay nearly equal.
  const Model large = test::resnet18();
  GradientOrder any;
  any.completing.assign(large.parameters.size(), 0);
  const auto packs = fuse(large, fusion, Precision::bf16, any);
  REQUIRE(packs.size() == 4);
  for (const Bucket& bucket : packs) {
    CHECK(bucket.bytes.count() == approx(2 * 11'689'512 / 4.0).epsilon(1e-4));
    CHECK(bucket.skipped % 32 == 0);
  }
}

// In reverse: 1 1 1 1 | 50 | 2 | 60 | 2 1; small: up to 8 bytes.
TEST_CASE("small neighbours are grouped, large gradients go alone") {
  const Model model = list_of({1, 2, 60, 2, 50, 1, 1, 1, 1});
  const GradientOrder order = plain_order(model);
  Fusion fusion = fusion_of(FusionKind::groups);
  fusion.max_bytes = Bytes(8);
  CHECK(sizes(fuse(model, fusion, Precision::fp32, order)) == std::vector<std::int64_t>{16, 200, 8, 240, 12});
  const Model two = list_of({2, 1});  // the second is just small
  CHECK(sizes(fuse(two, fusion, Precision::fp32, plain_order(two))) == std::vector<std::int64_t>{12});
  fusion.max_group = 3;  // ceil(4 / 3) groups at the beginning
  CHECK(sizes(fuse(model, fusion, Precision::fp32, order)) ==
        std::vector<std::int64_t>{12, 4, 200, 8, 240, 12});
  fusion.max_group = 1;
  CHECK(fuse(model, fusion, Precision::fp32, order).size() == model.parameters.size());
  CHECK(fuse(model, fusion_of(FusionKind::none), Precision::fp32, order).size() == model.parameters.size());
}

TEST_CASE("Horovod joins what became complete within a cycle, up to the threshold") {
  // Gradients of 20, 8, 4 and 40 bytes, complete after 1, 2, 3 and 4 s.
  const Model model = list_of({10, 1, 2, 5});
  const GradientOrder order = plain_order(model);
  Fusion fusion = fusion_of(FusionKind::horovod);
  fusion.cycle = Time::seconds(100);  // one look at the end: the threshold alone decides
  CHECK(sizes(fuse(model, fusion, Precision::fp32, order)) == std::vector<std::int64_t>{72});
  fusion.threshold = Bytes(30);  // 20 + 8, 4, and 40 by itself although it is larger
  CHECK(sizes(fuse(model, fusion, Precision::fp32, order)) == std::vector<std::int64_t>{28, 4, 40});
  fusion.threshold = Bytes(28);  // just room for both
  CHECK(sizes(fuse(model, fusion, Precision::fp32, order)) == std::vector<std::int64_t>{28, 4, 40});
  fusion.threshold = Bytes(1 << 20);
  fusion.cycle = Time::seconds(2);  // looks at 2 and 4 s
  auto buckets = fuse(model, fusion, Precision::fp32, order);
  CHECK(sizes(buckets) == std::vector<std::int64_t>{28, 44});
  CHECK(buckets[0].ready == 1);
  fusion.cycle = Time::seconds(2.5);  // the look at 2.5 s finds the third item running, after which it leaves
  buckets = fuse(model, fusion, Precision::fp32, order);
  CHECK(sizes(buckets) == std::vector<std::int64_t>{28, 44});
  CHECK(buckets[0].ready == 2);
  CHECK(buckets[1].ready == 3);
  fusion.cycle = Time::seconds(0.5);  // each by itself
  CHECK(fuse(model, fusion, Precision::fp32, order).size() == 4);
  CHECK_THROWS_AS(fuse(model, fusion, Precision::fp32, {order.completing, {}}), Error);
  fusion.cycle = Time();
  CHECK_THROWS_AS(fuse(model, fusion, Precision::fp32, order), Error);
}

// Caps 10 (first) and 30 bytes, fp32. In reverse: 1 -> 4 bytes, 2 -> 12 >= 10 closes; 5 -> 20, 4 -> 36 >= 30
// closes; 3 -> 12 stays open and is the last.
TEST_CASE("buckets close once their size reaches the cap, and a parameter is never split") {
  const auto buckets = ddp_buckets(list_of({3, 4, 5, 2, 1}), Bytes(10), Bytes(30), Precision::fp32);
  CHECK(sizes(buckets) == std::vector<std::int64_t>{12, 36, 12});
  CHECK(buckets[0].parameters == std::vector<int>{4, 3});
  CHECK(buckets[1].parameters == std::vector<int>{2, 1});
}

// 1 -> 4 bytes, 2 -> 12: just the cap. 5 -> 20, 4 -> 36: just the other one.
TEST_CASE("a bucket that is just full closes") {
  const Model model = list_of({3, 4, 5, 2, 1});
  CHECK(sizes(ddp_buckets(model, Bytes(12), Bytes(36), Precision::fp32)) ==
        std::vector<std::int64_t>{12, 36, 12});
  CHECK(sizes(ddp_buckets(model, Bytes(13), Bytes(36), Precision::fp32)) ==
        std::vector<std::int64_t>{32, 28});
}

// Gradients are complete after the items 1, 0 and 2: the second waits for the first, for they leave in order.
TEST_CASE("a gradient that is complete early waits for those in front of it") {
  const Model model = list_of({1, 1, 1});
  const GradientOrder order{{2, 0, 1}, {1, 2, 3}};
  const auto ready = [&](const Fusion& fusion) {
    std::vector<int> all;
    for (const Bucket& bucket : fuse(model, fusion, Precision::fp32, order)) all.push_back(bucket.ready);
    return all;
  };
  CHECK(ready(fusion_of(FusionKind::none)) == std::vector<int>{1, 1, 2});
  Fusion two = fusion_of(FusionKind::buckets);
  two.first_bucket = two.bucket = Bytes(8);
  CHECK(ready(two) == std::vector<int>{1, 2});
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
