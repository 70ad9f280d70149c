#include "execute/recorded_scenario.hpp"

#include <doctest/doctest.h>

#include "execute/reprediction.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

// As tools/foretrain_record.py leaves them: no scenario, no prediction.
FiledRecord recorded(std::int64_t batch, int workers, double step) {
  FiledRecord filed;
  filed.file = "r.json";
  RunRecord& r = filed.record;
  r.source = "pytorch";
  r.scenario_name = "run";
  r.model = "net";
  r.strategy = workers > 1 ? "ddp" : "independent";
  r.batch_per_worker = batch;
  r.workers = workers;
  r.machine.gpu = "NVIDIA H100";
  r.parameters = {{"w", {5000, 5000}, "fp32"}, {"scale", {}, "fp32"}};
  RankRecord rank;
  rank.step = {step, step, step};
  r.ranks = {rank};
  return filed;
}

Reprediction predicted(const std::vector<FiledRecord>& records, std::size_t which) {
  return Repredictor(Catalog(), records, "")(records[which]);
}

}  // namespace

TEST_CASE("steps of one worker predict another batch and several workers") {
  // 2 ms + 0.25 ms a sample
  std::vector<FiledRecord> records{recorded(32, 1, 0.010), recorded(64, 1, 0.018), recorded(48, 1, 0.0142),
                                   recorded(48, 2, 0.1)};
  records[3].record.nodes = 2;
  records[3].record.line_rate = 1.25e9;
  const Reprediction one = predicted(records, 2);
  REQUIRE_MESSAGE(one.step, one.problem);
  CHECK(*one.step == approx(0.014).epsilon(1e-3));
  CHECK(one.distance == std::vector<std::string>{"batch", "machine"});
  // 100 MB over 10 Gbit/s take at least 80 ms
  const Reprediction two = predicted(records, 3);
  REQUIRE_MESSAGE(two.step, two.problem);
  CHECK(*two.step > 0.080);
  CHECK(*two.low < *two.step);
  CHECK(two.gradient_bytes == approx(100'000'004));
  CHECK(two.slowest_link == approx(1.25e9));
  CHECK(two.distance == std::vector<std::string>{"gpus", "network", "machine"});
}

TEST_CASE("a record is not predicted from itself, and what is missing is told") {
  std::vector<FiledRecord> records{recorded(32, 1, 0.010), recorded(32, 1, 0.011)};
  CHECK(predicted(records, 0).problem.find("no other record has steps of one worker") != std::string::npos);
  records.push_back(recorded(32, 2, 0.02));
  records[2].record.nodes = 2;
  CHECK(predicted(records, 2).problem.find("no line rate") != std::string::npos);
  records[2].record.nodes = 1;
  CHECK(predicted(records, 2).step);
  records[2].record.strategy = "fsdp";
  CHECK(predicted(records, 2).problem.find("fsdp") != std::string::npos);
  records[2].record.parameters.clear();
  CHECK(predicted(records, 2).problem.find("no parameters") != std::string::npos);
}
