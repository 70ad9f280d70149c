#include "sim/network/measured_curve.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

// Sizes from 64 KiB to 64 MiB at 1 GB/s, each off by `deviation` in turn up and down, known to 1 %.
std::vector<CollectiveEntry> entries_of(int nodes, double deviation) {
  std::vector<CollectiveEntry> entries;
  int turn = 0;
  for (std::int64_t bytes = 1 << 16; bytes <= 1 << 26; bytes *= 2) {
    CollectiveEntry entry;
    entry.kind = "all_reduce";
    entry.ranks = nodes;
    entry.nodes = nodes;
    entry.bytes = bytes;
    const double off = turn++ % 2 == 0 ? deviation : -deviation;
    const double seconds = static_cast<double>(bytes) * 1e-9 * (1 + off);
    entry.time = {seconds, 0.99 * seconds, 1.01 * seconds, 0, 3};
    entries.push_back(entry);
  }
  return entries;
}

double doubt_at(const std::vector<CollectiveEntry>& entries, std::int64_t bytes) {
  std::vector<const CollectiveEntry*> all;
  for (const CollectiveEntry& entry : entries) all.push_back(&entry);
  return MeasuredCurve(all).at(static_cast<double>(bytes), {}).relative_uncertainty;
}

}  // namespace

TEST_CASE("between nodes a size is not known better than its neighbours allow") {
  CHECK(doubt_at(entries_of(2, 0), 1 << 24) == approx(0.01));
  const double noisy = doubt_at(entries_of(2, 0.04), 1 << 24);
  CHECK(noisy > 1.645 * 0.04);
  CHECK(noisy < 1.645 * 0.04 * 2.5);
  CHECK(doubt_at(entries_of(2, 0.04), 1 << 17) == approx(0.01));  // latency's own size
  CHECK(doubt_at(entries_of(1, 0.04), 1 << 24) == approx(0.01));  // a node's links bend, they do not vary
}

TEST_CASE("between nodes one late repetition of three does not widen a size beyond its like") {
  std::vector<CollectiveEntry> entries = entries_of(2, 0);
  entries[8].time.high = 2 * entries[8].time.median;
  CHECK(doubt_at(entries, entries[8].bytes) <= 0.03);
  entries[8].nodes = entries[8].ranks = 1;
  CHECK(doubt_at({entries[8]}, entries[8].bytes) > 0.4);
}

TEST_CASE("a size that calibration rounded is the size that was meant") {
  std::vector<CollectiveEntry> entries = entries_of(2, 0.04);
  std::vector<const CollectiveEntry*> all;
  for (const CollectiveEntry& entry : entries) all.push_back(&entry);
  const MeasuredCurve curve(all);
  for (const double off : {-16.0, 16.0})
    CHECK(curve.at((1 << 24) + off, {}).seconds == curve.at(1 << 24, {}).seconds);
  CHECK(curve.at((1 << 24) * 1.01, {}).seconds != curve.at(1 << 24, {}).seconds);
}

TEST_CASE("a size whose own repetitions do not agree says nothing of its neighbours") {
  std::vector<CollectiveEntry> entries = entries_of(2, 0);
  CollectiveEntry& doubtful = entries[5];
  const double truth = doubtful.time.median;
  doubtful.time = {4 * truth, 1.5 * truth, 5 * truth, 0, 40};
  std::vector<const CollectiveEntry*> all;
  for (const CollectiveEntry& entry : entries) all.push_back(&entry);
  const MeasuredCurve curve(all);
  const auto bytes = static_cast<double>(doubtful.bytes);
  CHECK(curve.at(1.3 * bytes, {}).seconds == approx(1.3 * bytes * 1e-9));
  CHECK(curve.at(0.8 * bytes, {}).seconds == approx(0.8 * bytes * 1e-9));
  // Even of itself less than they do, but with the doubt of the difference.
  CHECK(curve.at(bytes, {}).seconds == approx(truth).epsilon(0.01));
  CHECK(curve.at(bytes, {}).relative_uncertainty > 1.4);
}

// Of three repetitions two met something else: 34, 43 and 58 ms where the neighbours and the first say 34.
TEST_CASE("a size in doubt leans on its neighbours, as far as they are known better") {
  std::vector<CollectiveEntry> entries = entries_of(2, 0);
  CollectiveEntry& odd = entries[entries.size() - 3];
  const auto bytes = static_cast<double>(odd.bytes);
  const double truth = bytes * 1e-9;
  odd.time = {1.27 * truth, truth, 1.72 * truth, 0.36 * truth, 3};
  std::vector<const CollectiveEntry*> all;
  for (const CollectiveEntry& entry : entries) all.push_back(&entry);
  const MeasuredCurve::Reading reading = MeasuredCurve(all).at(bytes, {});
  CHECK(reading.seconds == approx(truth).epsilon(0.07));  // 1.27 by itself
  CHECK(reading.relative_uncertainty > 0.1);
  // Known as well as the others it stands for itself.
  odd.time = {1.27 * truth, 1.26 * truth, 1.28 * truth, 0.01 * truth, 3};
  CHECK(MeasuredCurve(all).at(bytes, {}).seconds == approx(1.27 * truth));
}

TEST_CASE("from one size of the same choice on it grows as the model does") {
  const std::vector<CollectiveEntry> entries = entries_of(2, 0);
  std::vector<const CollectiveEntry*> all;
  for (const CollectiveEntry& entry : entries) all.push_back(&entry);
  const MeasuredCurve curve(all);
  const double last_of_small = static_cast<double>(entries[0].bytes);
  auto choice = [&](double bytes, const std::string&, const std::string&) {
    return std::string(bytes < 2 * last_of_small ? "RING LL" : "RING SIMPLE");
  };
  const auto reading =
      curve.at(1.5 * last_of_small, choice, [](double bytes) { return 10e-6 + bytes * 2e-9; });
  CHECK(reading.seconds == approx(entries[0].time.median * (10e-6 + 1.5 * last_of_small * 2e-9) /
                                  (10e-6 + last_of_small * 2e-9)));
}

// 256 B and 2 KiB of one choice lie on either side of a step of 10 us, 16 KiB is of another.
TEST_CASE("beyond two sizes of a choice a step between them is not carried on") {
  std::vector<CollectiveEntry> entries = entries_of(2, 0);
  entries.resize(3);
  const std::pair<double, double> points[] = {{256, 38e-6}, {2048, 48e-6}, {16384, 99e-6}};
  std::vector<const CollectiveEntry*> all;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [bytes, seconds] = points[i];
    entries[i].bytes = static_cast<std::int64_t>(bytes);
    entries[i].time = {seconds, seconds, seconds, 0, 20};
    all.push_back(&entries[i]);
  }
  const MeasuredCurve curve(all);
  auto choice = [](double bytes, const std::string&, const std::string&) {
    return std::string(bytes < 10'000 ? "RING LL 1" : "RING LL 2");
  };
  const auto grown = [&](double seconds_a_byte) {
    return curve.at(8192, choice, [=](double bytes) { return 40e-6 + bytes * seconds_a_byte; }).seconds;
  };
  CHECK(grown(1e-9) == approx(48e-6 * (40 + 8.192) / (40 + 2.048)).epsilon(1e-9));
  const double on_the_line = 48e-6 + 6144 * 10e-6 / 1792;
  CHECK(grown(1e-6) == approx(on_the_line).epsilon(1e-9));
  CHECK(curve.at(8192, choice).seconds == approx(on_the_line).epsilon(1e-9));
}

// Up to 4 MiB latency alone, then bytes / 400 GB/s: 64 MiB of a line to 256 MiB take a quarter of it at
// least.
TEST_CASE("a smaller size moves no faster than a larger one") {
  std::vector<CollectiveEntry> entries = entries_of(1, 0);
  entries.resize(4);
  const double mebi = 1 << 20;
  const std::pair<double, double> points[] = {
      {0.25 * mebi, 50e-6}, {1 * mebi, 50e-6}, {4 * mebi, 50e-6}, {256 * mebi, 700e-6}};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [bytes, seconds] = points[i];
    entries[i].bytes = static_cast<std::int64_t>(bytes);
    entries[i].time = {seconds, seconds, seconds, 0, 20};
  }
  std::vector<const CollectiveEntry*> all;
  for (const CollectiveEntry& entry : entries) all.push_back(&entry);
  const MeasuredCurve curve(all);
  const double chord = 50e-6 + 60.0 / 252 * 650e-6;
  CHECK(curve.at(64 * mebi, {}).seconds >= 700e-6 / 4);
  CHECK(curve.at(64 * mebi, {}).seconds <= chord);
  CHECK(curve.at(8 * mebi, {}).seconds >= 50e-6);
}
