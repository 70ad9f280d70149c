#include "sim/output/trace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/random.hpp"
#include "tests/output/timeline_checks.hpp"

using foretrain::RandomStream;
using foretrain::Slice;
using foretrain::Time;
using foretrain::Timeline;
using foretrain::Track;
using foretrain::test::partial_overlaps;
using nlohmann::json;

namespace {

std::string trace_of(const Timeline& timeline) {
  std::string text;
  foretrain::write_trace(timeline, [&](std::string_view piece) { text += piece; });
  return text;
}

// Slices one after the other at picoseconds that are no whole nanoseconds, some with slices inside.
Timeline random_timeline(std::uint64_t seed) {
  RandomStream random(seed);
  Timeline timeline;
  timeline.title = "a \"quoted\" title";
  timeline.rank_names = {"node 0, GPU 0"};
  for (int rank = 0; rank < 3; ++rank) {
    for (const Track track : {Track::host, Track::compute, Track::communication}) {
      Time at;
      for (int i = 0; i < 50; ++i) {
        at += Time(static_cast<std::int64_t>(random.next() % 3000));
        const Time duration(static_cast<std::int64_t>(random.next() % 5000));
        timeline.slices.push_back(
            {rank, track, "s" + std::to_string(i), "forward", at, duration, {{"batch", "64"}}});
        const Time inside(static_cast<std::int64_t>(random.next() % 1000));
        if (inside * 2 < duration) {
          timeline.slices.push_back({rank, track, "inner", "", at + inside, duration - inside * 2, {}});
        }
        at += duration;
      }
    }
  }
  timeline.flows.push_back({0, 1, Track::host, Track::compute, Time(1000), Time(123456)});
  return timeline;
}

}  // namespace

TEST_CASE("a trace names a process a rank and its tracks") {
  const json trace = json::parse(trace_of(random_timeline(1)));
  CHECK(trace["otherData"]["title"] == "a \"quoted\" title");
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> tracks;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "M") continue;
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name") tracks[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  CHECK(processes == std::map<int, std::string>{{0, "rank 0: node 0, GPU 0"}, {1, "rank 1"}, {2, "rank 2"}});
  CHECK(tracks.size() == 9);
  CHECK(tracks[{0, 1}] == "host");
  CHECK(tracks[{0, 2}] == "compute");
  CHECK(tracks[{0, 3}] == "communication");
}

TEST_CASE("slices never overlap in part, not after rounding to the viewer's nanoseconds either") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Timeline timeline = random_timeline(seed);
    REQUIRE(partial_overlaps(timeline).empty());
    Timeline read;
    const json trace = json::parse(trace_of(timeline));
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      auto nanoseconds = [](double us) { return Time(std::llround(us * 1000) * 1000); };
      read.slices.push_back({event["pid"],
                             static_cast<Track>(event["tid"].get<int>() - 1),
                             event["name"],
                             event["cat"],
                             nanoseconds(event["ts"]),
                             nanoseconds(event["dur"]),
                             {}});
    }
    CHECK(read.slices.size() == timeline.slices.size());
    CHECK(partial_overlaps(read).empty());
  }
}

TEST_CASE("the check for overlaps finds them") {
  Timeline timeline;
  timeline.slices = {{0, Track::host, "a", "", Time(0), Time(10), {}},
                     {0, Track::host, "b", "", Time(5), Time(10), {}}};
  CHECK(partial_overlaps(timeline).size() == 1);
  timeline.slices[1].start = Time(10);
  CHECK(partial_overlaps(timeline).empty());
  timeline.slices[1] = {1, Track::host, "b", "", Time(5), Time(10), {}};
  CHECK(partial_overlaps(timeline).empty());
}

TEST_CASE("one trace is always the same bytes, in whatever order the slices were found") {
  Timeline timeline = random_timeline(4);
  const std::string first = trace_of(timeline);
  CHECK(trace_of(timeline) == first);
  std::reverse(timeline.slices.begin(), timeline.slices.end());
  // Equal slices may change places; here none are equal.
  CHECK(trace_of(timeline).size() == first.size());
}

TEST_CASE("arrows have two ends, and an empty timeline is a trace too") {
  const json trace = json::parse(trace_of(random_timeline(5)));
  int starts = 0, ends = 0;
  for (const json& event : trace["traceEvents"]) {
    starts += event["ph"] == "s";
    ends += event["ph"] == "f" && event["bp"] == "e";
  }
  CHECK(starts == 1);
  CHECK(ends == 1);
  CHECK(json::parse(trace_of(Timeline()))["traceEvents"].empty());
}
