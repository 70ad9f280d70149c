// Networks that were measured at some line rates, asked at others.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "sim/input/catalog.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/training/predict.hpp"

using namespace foretrain;

namespace {

double step_of(const Catalog& catalog, const std::string& profile, const std::string& bucket,
               double gigabits) {
  const std::string text = fmt::format(
      "model: resnet50\nprofile: {}\nprecision: bf16\nbatch: {{ per_worker: 64 }}\ncluster: {{ topology: "
      "ethernet-nodes, nodes: 2, gpus_per_node: 1, network: {{ bandwidth: {:g} Gbit/s, latency: 15 us, "
      "transport: tcp }} }}\nstrategy: {{ kind: ddp, bucket: {} }}\n",
      profile, gigabits, bucket);
  Diagnostics diagnostics;
  const auto scenario = parse_scenario(text, "s.yaml", catalog, {}, diagnostics);
  diagnostics.throw_errors();
  return predict(*scenario, {.remedies = false}).step.time;
}

}  // namespace

// Between measured rates, beyond them, and where the slot of the NIC becomes slower than its line (504
// Gbit/s).
TEST_CASE("law: over a measured network more bandwidth makes no step longer") {
  Catalog catalog({FORETRAIN_SOURCE_DIR});
  catalog.keep_profiles();
  for (const char* profile : {"[h100, two-nodes-tcp-10-gbit]",
                              "[h100, two-nodes-tcp-1-gbit, two-nodes-tcp-10-gbit, two-nodes-tcp-25-gbit]"}) {
    for (const char* bucket : {"25 MiB", "1 MiB"}) {
      double before = 0;
      for (const double gigabits : {0.1, 1.0, 2.0, 5.0, 10.0, 11.0, 20.0, 25.0, 40.0, 100.0, 150.0, 180.0,
                                    200.0, 400.0, 500.0, 600.0, 800.0}) {
        CAPTURE(profile);
        CAPTURE(bucket);
        CAPTURE(gigabits);
        const double step = step_of(catalog, profile, bucket, gigabits);
        if (before > 0) CHECK(step < 1.005 * before);
        before = step;
      }
    }
  }
}
