// A simulated step in the formats of other tools.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/wire.hpp"
#include "sim/output/kineto_trace.hpp"
#include "sim/output/perfetto_trace.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;
using nlohmann::json;
using test::run_foretrain;
using test::TemporaryFolder;

namespace {

// Two ranks: a launch and its kernel, and a collective of 1 MB that takes 1 ms.
Timeline example() {
  Timeline timeline;
  timeline.title = "example";
  timeline.rank_names = {"node 0, GPU 0", "node 0, GPU 1"};
  for (int rank = 0; rank < 2; ++rank) {
    timeline.slices.push_back(
        {rank, Track::host, "conv", "launch", Time::seconds(0), Time::seconds(1e-5), {}});
    timeline.slices.push_back({rank,
                               Track::compute,
                               "conv",
                               "forward",
                               Time::seconds(1e-5),
                               Time::seconds(1e-3),
                               {{"launches", "1"}}});
    timeline.slices.push_back({rank,
                               Track::communication,
                               "all_reduce bucket 0",
                               "communication",
                               Time::seconds(2e-3),
                               Time::seconds(1e-3),
                               {{"bytes", "1000000"}}});
  }
  return timeline;
}

Result example_of_two() {
  Result result;
  result.workers = 2;
  LinkUse link;
  link.name = "nvlink";
  link.bytes_per_step = 2e6;
  result.links = {link};
  return result;
}

}  // namespace

TEST_CASE("Perfetto's format: tracks for hosts and streams, counters of links, arrows from send to receive") {
  std::string bytes;
  write_perfetto_trace(example(), example_of_two(), [&](std::string_view piece) { bytes += piece; });
  std::map<std::uint64_t, std::string> tracks;
  std::map<std::uint64_t, int> depth;
  int flows = 0, ends = 0;
  std::vector<double> counter;
  std::int64_t last = 0;
  WireReader trace(bytes);
  while (trace.next()) {
    REQUIRE(trace.field() == 1);
    std::int64_t time = -1;
    WireReader packet(trace.bytes());
    std::string_view event, descriptor;
    while (packet.next()) {
      if (packet.field() == 8) time = packet.integer();
      if (packet.field() == 11) event = packet.bytes();
      if (packet.field() == 60) descriptor = packet.bytes();
    }
    CHECK(packet.ok());
    if (!descriptor.empty()) {
      std::uint64_t uuid = 0;
      std::string name;
      for (WireReader field(descriptor); field.next();) {
        if (field.field() == 1) uuid = field.varint();
        if (field.field() == 2) name = field.bytes();
        if (field.field() == 3 || field.field() == 4)
          for (WireReader part(field.bytes()); part.next();)
            if (part.type() == WireReader::Type::bytes) name = part.bytes();
      }
      CHECK(tracks.emplace(uuid, name).second);
      continue;
    }
    CHECK(time >= last);
    last = time;
    std::uint64_t type = 0, track = 0;
    for (WireReader field(event); field.next();) {
      if (field.field() == 9) type = field.varint();
      if (field.field() == 11) track = field.varint();
      if (field.field() == 44) counter.push_back(field.real());
      if (field.field() == 47) flows += field.type() == WireReader::Type::fixed64;
      if (field.field() == 48) ends += field.type() == WireReader::Type::fixed64;
    }
    CHECK(tracks.contains(track));
    if (type == 1) ++depth[track];
    if (type == 2) CHECK(--depth[track] >= 0);
  }
  CHECK(trace.ok());
  CHECK(tracks.size() == 2 + 2 * 3 + 1);
  bool has_counter = false;
  for (const auto& [uuid, name] : tracks) has_counter = has_counter || name.starts_with("nvlink");
  CHECK(has_counter);
  // 2 MB of the link's in 1 ms.
  REQUIRE(counter.size() == 2);
  CHECK(counter[0] == approx(2e9));
  CHECK(counter[1] == 0);
  CHECK(flows == 4);  // two launches, and each rank to the next
  CHECK(ends == flows);
  for (const auto& [track, open] : depth) CHECK(open == 0);
}

TEST_CASE("the shape of PyTorch's profiler: launches, kernels and collectives with their correlations") {
  std::string text;
  write_kineto_trace(example(), example_of_two(), [&](std::string_view piece) { text += piece; });
  const json trace = json::parse(text);
  CHECK(trace.at("distributedInfo").at("world_size") == 2);
  std::map<std::string, int> categories;
  for (const json& event : trace.at("traceEvents")) ++categories[event.at("cat")];
  CHECK(categories == std::map<std::string, int>{
                          {"cpu_op", 1}, {"cuda_runtime", 1}, {"kernel", 2}, {"user_annotation", 1}});
  for (const json& event : trace.at("traceEvents"))
    if (event.at("name").get<std::string>().starts_with("nccl"))
      CHECK(event.at("args").at("In msg nelems") == 250000);
}

TEST_CASE("a simulated step in the profiler's shape imports as the step that it was") {
  const TemporaryFolder folder;
  const std::string scenario =
      folder.write("s.yaml",
                   "model: resnet50\nprofile: h100\nprecision: bf16\nbatch: { per_worker: 64 }\n"
                   "cluster: { topology: nvlink-node, gpus_per_node: 1 }\n");
  const auto made =
      run_foretrain({"simulate", scenario, "--json", "-", "--trace", folder.path("step.pt.trace.json.gz")});
  REQUIRE(made.status == 0);
  const double step = json::parse(made.out).at("step").at("time_s");
  const auto imported = run_foretrain({"import", "kineto", folder.path("step.pt.trace.json.gz"), "-o",
                                       folder.path("job.json"), "--batch", "64"});
  if (imported.status == 4) return;  // built without RapidJSON
  CAPTURE(imported.err);
  REQUIRE(imported.status == 0);
  const std::string again = folder.write(
      "again.yaml", "workload: job.json\ncluster: { topology: nvlink-node, gpus_per_node: 1 }\n");
  const auto result = run_foretrain({"simulate", again, "--json", "-"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(json::parse(result.out).at("step").at("time_s").get<double>() == approx(step).epsilon(0.03));
  CHECK(run_foretrain({"simulate", scenario, "--trace", folder.path("step.pftrace")}).status == 0);
  CHECK(test::read_file(folder.path("step.pftrace")).starts_with("\n"));  // field 1, bytes
}
