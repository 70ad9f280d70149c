#include "sim/import/nccl_tests.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/import/nccl_tests_log.hpp"
#include "sim/input/profile_json.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/imports.hpp"

using namespace foretrain;
using foretrain::test::approx;
using test::Finished;
using test::holds;
using test::run_foretrain;
using test::TemporaryFolder;

namespace {

// Four ranks of one node; time of a ring at 100 GB/s of bus bandwidth: 1.5 S / 100 GB/s.
const std::string ranks =
    "# nThread 1 nGpus 4 minBytes 1048576 maxBytes 16777216 step: 4(factor) warmup iters: 5 iters: 20 agg "
    "iters: 1 validation: 1 graph: 0\n"
    "#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid   4242 on      alpha device  0 [0x07] NVIDIA Test-SXM4-40GB\n"
    "#  Rank  1 Group  0 Pid   4242 on      alpha device  1 [0x0f] NVIDIA Test-SXM4-40GB\n"
    "#  Rank  2 Group  0 Pid   4242 on      alpha device  2 [0x47] NVIDIA Test-SXM4-40GB\n"
    "#  Rank  3 Group  0 Pid   4242 on      alpha device  3 [0x4e] NVIDIA Test-SXM4-40GB\n"
    "#\n";

const std::string with_root =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
    "busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
    "(GB/s)       \n"
    "     1048576        262144     float     sum      -1    16.00   65.54   98.30      0    15.73   66.66   "
    "99.99      0\n"
    "     4194304       1048576     float     sum      -1    63.00   66.58   99.86      0    62.91   66.67  "
    "100.00      0\n"
    "    16777216       4194304     float     sum      -1    251.7   66.67  100.00      0    251.0   66.84  "
    "100.26    N/A\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 99.73\n";

// Before 2.13: no root, and an error in place of a count.
const std::string without_root =
    "#                                                     out-of-place                       in-place       "
    "   \n"
    "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  "
    "error\n"
    "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)     "
    "  \n"
    "     1048576        262144   float     sum    16.00   65.54   98.30  2e-07    15.73   66.66   99.99  "
    "2e-07\n"
    "     4194304       1048576   float     sum    63.00   66.58   99.86  2e-07    62.91   66.67  100.00  "
    "2e-07\n"
    "    16777216       4194304   float     sum    251.7   66.67  100.00    N/A    2.51e+02   66.84  100.26  "
    "  N/A\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 99.73\n";

const std::string json =
    R"({"version":3,"start_time":"2026-01-01 00:00:00","args":["\/opt\/nccl-tests\/build\/all_reduce_perf","-g","4"],
"env":["HOME=\/root","NCCL_ALGO=Ring"],"nccl_version":22809,"config":{"nthreads":1,"ngpus":4,"iterations":20,"blocking_collectives":"false"},
"devices":[{"rank":0,"hostname":"alpha","device_info":"NVIDIA Test-SXM4-40GB"},{"rank":1,"hostname":"alpha","device_info":"x"},
{"rank":2,"hostname":"alpha","device_info":"x"},{"rank":3,"hostname":"alpha","device_info":"NVIDIA Test-SXM4-40GB"}],
"results":[{"size":1048576,"count":262144,"type":"float","redop":"sum","root":"    -1","out_of_place":{"time":16.0,"alg_bw":65.54,"bus_bw":98.3,"nwrong":0.0},"in_place":{"time":15.73,"alg_bw":66.66,"bus_bw":99.99,"nwrong":null},"actual_iterations":20},
{"size":4194304,"count":1048576,"type":"float","redop":"sum","root":"    -1","out_of_place":null,"in_place":{"time":62.91,"alg_bw":66.67,"bus_bw":100.0,"nwrong":0.0}},
{"size":16777216,"count":4194304,"type":"float","redop":"sum","root":"    -1","out_of_place":{"time":251.7,"alg_bw":66.67,"bus_bw":100.0,"nwrong":0.0},"in_place":{"time":251.0,"alg_bw":66.84,"bus_bw":100.26,"nwrong":0.0}}],
"average_bus_bandwidth":{"bandwidth":99.73,"okay":"unchecked"}})";

// Each line behind what a launcher writes before it.
std::string prefixed(const std::string& log, const std::string& prefix) {
  std::string out;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = log.find('\n', at);
    out += prefix + log.substr(at, end - at) + '\n';
    at = end + 1;
  }
  return out;
}

Profile imported(const std::string& log, ImportOptions options = {},
                 std::vector<std::string>* notes = nullptr) {
  options.file = "t.log";
  options.target = "fabric.json";
  const Imported made = import_nccl_tests(log, options);
  if (notes != nullptr) *notes = made.notes;
  Diagnostics findings;
  const auto profile = parse_profile(made.content, "fabric.json", findings);
  findings.throw_errors();
  REQUIRE(profile);
  return *profile;
}

std::string refusal(const std::string& log, const ImportOptions& options = {}) {
  return test::refusal_of([&] { imported(log, options); });
}

}  // namespace

TEST_CASE("logs of every generation of nccl-tests say the same") {
  const std::string colours = "\x1b[32m" + ranks + "\x1b[0m" + with_root;
  for (const std::string& log :
       {ranks + with_root, ranks + without_root, prefixed(ranks + with_root, "[1,0]<stdout>:"),
        prefixed(ranks + without_root, "[1,0]<stdout> "), prefixed(ranks + with_root, "0: "),
        prefixed(ranks + with_root, "alpha: "),
        prefixed(ranks + with_root, "[prterun-alpha-7@1,0]<stdout>: "),
        prefixed(ranks + with_root, "2026-01-31T12:00:00.123456789Z "), colours, json}) {
    CAPTURE(log);
    const Profile profile = imported(log);
    REQUIRE(profile.collectives.size() == 3);
    CHECK(profile.name == "fabric");
    CHECK(profile.runs.at(0).machine.gpu == "NVIDIA Test-SXM4-40GB");
    CHECK(profile.runs.at(0).machine.gpus == 4);
    const CollectiveEntry& first = profile.collectives[0];
    CHECK(first.kind == "all_reduce");
    CHECK(first.ranks == 4);
    CHECK(first.nodes == 1);
    CHECK(first.element == "fp32");
    CHECK(first.bytes == 1048576);
    CHECK(first.time.median == approx(15.73e-6));  // in place, as a job reduces
    CHECK(first.time.high == approx(16e-6));
    CHECK(first.time.repetitions == 20);
    CHECK(profile.collectives[2].time.median == approx(251e-6));
  }
}

TEST_CASE("NCCL's own lines between are passed over, and what they tell is kept") {
  std::string log = ranks + with_root;
  log.insert(log.find("     4194304"),
             "alpha:4242:4260 [0] NCCL INFO AllReduce: 4194304 Bytes -> Algo RING proto SIMPLE "
             "channel{Lo..Hi}={0..1}\n"
             "alpha:4242:4260 [0] NCCL INFO NCCL version 2.18.3+cuda12.2\n"
             "alpha:4242:4242 [0] NCCL INFO NCCL_PROTO set by environment to Simple\n"
             "     2097152        524288     float     sum      -1    3alpha:4242:4260 [1] misc/foo.cc:80 "
             "WARN late\n");
  std::vector<std::string> notes;
  const Profile profile = imported(log, {}, &notes);
  REQUIRE(profile.collectives.size() == 3);
  CHECK(profile.collectives[1].chosen_algorithm == "RING");
  CHECK(profile.collectives[1].chosen_protocol == "SIMPLE");
  CHECK(profile.collectives[0].chosen_algorithm.empty());
  CHECK(profile.collectives[0].protocol == "Simple");
  CHECK(profile.runs[0].machine.nccl == "2.18.3");
  REQUIRE(notes.size() >= 2);
  CHECK(holds(notes[0], "3 lines are not of nccl-tests"));
  CHECK(holds(notes[1], "1 rows are not whole"));
  CHECK(imported(json).collectives[0].algorithm == "ring");
  CHECK(nccl_version_text(22809) == "2.28.9");
  CHECK(nccl_version_text(2804) == "2.8.4");
}

TEST_CASE("the collective is told by name, by bandwidths, or not at all") {
  const std::string gather = ranks +
                             "#       size         count      type   redop    root     time   algbw   busbw "
                             "#wrong     time   algbw   busbw #wrong\n"
                             "    16777216        1048576     float    none      -1    125.8  133.34  100.00 "
                             "     0    125.8  133.34  100.00      0\n";
  CHECK(holds(refusal(gather), "add --collective all_reduce, reduce_scatter"));
  ImportOptions options;
  options.collective = CollectiveKind::all_gather;
  CHECK(imported(gather, options).collectives.at(0).kind == "all_gather");
  CHECK(imported("$ mpirun -np 4 ./build/all_gather_perf -b 16M\n" + gather).collectives.at(0).kind ==
        "all_gather");
  CHECK(imported("# Collective test starting: all_gather_perf_mpi\n" + gather).collectives.at(0).kind ==
        "all_gather");
  CHECK(imported("# Collective test starting: alltoall_perf\n" + gather).collectives.at(0).kind ==
        "all_to_all");
  const std::string scatter = ranks +
                              "#       size         count      type   redop    root     time   algbw   busbw "
                              "#wrong     time   algbw   busbw #wrong\n"
                              "    16777216        1048576      half     sum      -1    125.8  133.34  "
                              "100.00      0    125.8  133.34  100.00      0\n";
  CHECK(imported(scatter).collectives.at(0).kind == "reduce_scatter");
  CHECK(imported(scatter).collectives.at(0).element == "fp16");
}

TEST_CASE("columns that are N/A as a whole, and numbers in scientific notation") {
  // All-to-all has no time in place; what is wrong was not counted (-c 0).
  const std::string none_in_place = "# Collective test starting: alltoall_perf\n" + ranks +
                                    "#       size         count      type   redop    root     time   algbw   "
                                    "busbw #wrong     time   algbw   "
                                    "busbw #wrong\n"
                                    "    16777216       1048576     float    none      -1  1.258e+02  "
                                    "1.3334e+02  1.0000e+02    N/A      N/A "
                                    "    N/A     N/A    N/A\n"
                                    "    33554432       2097152     float    none      -1  2.5e+02  1.34e+02 "
                                    " 1.00e+02   1e+00      N/A     "
                                    "N/A     N/A    N/A\n"
                                    "# Avg bus bandwidth    : 1.0e+02\n";
  std::vector<std::string> notes;
  const Profile profile = imported(none_in_place, {}, &notes);
  REQUIRE(profile.collectives.size() == 2);
  CHECK(profile.collectives[0].kind == "all_to_all");
  CHECK(profile.collectives[0].time.median == approx(125.8e-6));
  CHECK(profile.collectives[1].time.median == approx(250e-6));
  REQUIRE_FALSE(notes.empty());
  CHECK(holds(notes[0], "1 rows had wrong results"));
}

TEST_CASE("what is no measurement of a collective is refused with the reason") {
  const std::string one_rank =
      "# Using devices\n#  Rank  0 Group  0 Pid  1 on alpha device  0 [0x07] NVIDIA Test\n";
  const std::string zeros =
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw "
      "  busbw #wrong\n"
      "     1048576        262144     float     sum      -1     5.00  209.72    0.00      0     5.00  209.72 "
      "   0.00      0\n"
      "# Avg bus bandwidth    : 0\n";
  CHECK(holds(refusal(one_rank + zeros), "is of one rank"));
  CHECK(holds(refusal(one_rank + one_rank + zeros), "built without MPI"));
  CHECK(holds(refusal(ranks + zeros), "average bus bandwidth is 0"));
  CHECK(holds(refusal(with_root), "does not list its ranks"));
  CHECK(
      holds(refusal("# Collective test starting: scatter_perf\n" + ranks + with_root), "is of scatter_perf"));
  CHECK(holds(refusal("hello\n"), "has no row of nccl-tests"));
  CHECK(holds(refusal(""), "has no row of nccl-tests"));
  CHECK(holds(refusal(json.substr(0, json.size() / 2)), "is not valid JSON"));
  CHECK(holds(refusal("{\"results\": 3}"), "has no list 'results'"));
  std::string cpu = json;
  for (std::size_t at = 0; (at = cpu.find("\"time\"", at)) != std::string::npos;)
    cpu.replace(at, 6, "\"cpu_time\"");
  CHECK(refusal(cpu) != "");
}

TEST_CASE("numbers of a JSON log that no integer holds are left out, a row of them with them") {
  std::vector<std::string> notes;
  const std::size_t rows = imported(json, {}, &notes).collectives.size();
  for (const char* huge : {"1.63e67", "\"1e300\"", "-4e30"}) {
    CAPTURE(huge);
    std::string text = json;
    const std::size_t at = text.find("\"size\":") + 7;
    text.replace(at, text.find(',', at) - at, huge);
    CHECK(imported(text, {}, &notes).collectives.size() == rows - 1);
  }
}

TEST_CASE("several nodes need the speed of what joins them") {
  std::string log = ranks + with_root;
  for (std::size_t at = log.find("#  Rank  2"); (at = log.find("alpha", at)) != std::string::npos;)
    log.replace(at, 5, "beta ");
  CHECK(holds(refusal(log), "stand on 2 nodes"));
  ImportOptions options;
  options.network = "100 Gbit/s rdma";
  const CollectiveEntry entry = imported(log, options).collectives.at(0);
  CHECK(entry.nodes == 2);
  CHECK(entry.line_rate == approx(12.5e9));
  CHECK(holds(entry.network, "rdma"));
  options.network = "fast";
  CHECK(holds(refusal(log, options), "--network"));
}

TEST_CASE("the imported collectives give their own times back") {
  const TemporaryFolder folder;
  const std::string log = folder.write("t.log", ranks + with_root);
  const Finished made = run_foretrain({"import", "nccl-tests", log, "-o", folder.path("fabric.json")});
  CHECK(made.status == 0);
  CHECK(holds(made.err, "all_reduce on 4 ranks of 1 node: 3 sizes"));
  const Finished timed =
      run_foretrain({"collective", "all_reduce", "--topology", "nvlink-node", "--set", "gpus_per_node=4",
                     "--bytes", "4MiB", "--profile", folder.path("fabric.json"), "--csv", "-"});
  CHECK(timed.status == 0);
  CHECK(holds(timed.out, ",6.29"));
  CHECK(holds(timed.out, "measured"));
  // What `collective` prints as nccl-tests does is read back.
  const Finished table =
      run_foretrain({"collective", "all_reduce", "--topology", "nvlink-node", "--set", "gpus_per_node=4",
                     "--bytes", "1MiB..64MiB*4", "--format", "nccl-tests"});
  const std::string written = folder.write("written.log", table.out);
  const Finished back = run_foretrain({"import", "nccl-tests", written, "-o", folder.path("back.json")});
  CAPTURE(back.err);
  CHECK(back.status == 0);
}

TEST_CASE("a job is simulated over collectives of a log") {
  const TemporaryFolder folder;
  std::string log = ranks + with_root;
  for (std::size_t at = 0; (at = log.find("NVIDIA Test-SXM4-40GB", at)) != std::string::npos;)
    log.replace(at, 21, "NVIDIA H100 80GB HBM3");
  REQUIRE(
      run_foretrain({"import", "nccl-tests", folder.write("t.log", log), "-o", folder.path("fabric.json")})
          .status == 0);
  const std::string scenario = folder.write(
      "s.yaml",
      "model: resnet50\nprofile: [h100, fabric.json]\nprecision: bf16\nbatch: { per_worker: 64 }\n"
      "cluster: { topology: nvlink-node, gpus_per_node: 4 }\nstrategy: { kind: ddp, bucket: 4 MiB, "
      "first_bucket: 4 MiB }\n");
  const Finished with = run_foretrain({"simulate", scenario, "--json", "-"});
  REQUIRE_MESSAGE(with.status == 0, with.err);
  const auto result = nlohmann::json::parse(with.out);
  CHECK(result.at("profile") == "h100 + fabric");
  // Times of the log, and the nearest beyond: an all-reduce of 4 MiB takes 63 us, the gradients 24 of them
  // and more.
  CHECK(result.at("communication").at("busy_s").get<double>() > 24 * 60e-6);
  const Finished without = run_foretrain({"simulate", scenario, "--profile", "h100", "--json", "-"});
  REQUIRE(without.status == 0);
  CHECK(nlohmann::json::parse(without.out).at("communication").at("busy_s") !=
        result.at("communication").at("busy_s"));
}
