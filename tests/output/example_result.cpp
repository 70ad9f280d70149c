#include "tests/output/example_result.hpp"

namespace foretrain::test {

Result example_result() {
  Result r;
  r.scenario = "resnet50-2-nodes";
  r.question = "Does a second node over 10 Gbit/s Ethernet pay for ResNet-50?";
  r.seed = 7;
  r.inputs = {{"batch.per_worker", "64", Origin::measured, false},
              {"cluster.network.latency", "30 us", Origin::assumed, true}};
  r.model = "resnet50";
  r.profile = "h200";
  r.precision = "bf16";
  r.strategy = "ddp";
  r.topology = "ethernet-nodes";
  r.kind = "images, several nodes";
  r.workers = 8;
  r.nodes = 2;
  r.batch_global = 512;
  r.batch_per_worker = 64;
  r.step = {.time = 0.0312,
            .mean = 0.0314,
            .p05 = 0.0302,
            .p50 = 0.0312,
            .p95 = 0.0333,
            .low = 0.0301,
            .high = 0.0324,
            .breakdown = {.forward = 0.0071,
                          .backward = 0.0142,
                          .optimizer = 0.0004,
                          .exposed_communication = 0.0081,
                          .waiting = 0.0009,
                          .host = 0.0004,
                          .input = 0.0001}};
  r.samples_per_second = 16410.256410256410;
  r.units_per_second = 16410.256410256410;
  r.speedup = 5.56;
  r.efficiency = 0.695;
  r.communication = {
      .bytes_per_worker = 102228128, .collectives = 5, .busy = 0.0221, .exposed = 0.0081, .overlap = 0.63};
  r.links = {{"nic", 4, 1.175e9, 153342192, 0.88}, {"nvlink", 16, 4.5e11, 178899224, 0.013}};
  r.limiting = {
      "network", "nic",
      "The network between the nodes limits: 26 % of the step waits for gradients on links that are "
      "88 % busy. 25 Gbit/s would hide them."};
  r.remedies = {{"network of 25 Gbit/s", 0.0229, 1.36, "two NICs"},
                {"gradients in bf16", 0.0247, 1.26, "accuracy to be checked"}};
  r.break_even = BreakEven{.bandwidth_next_node = 4.1e8, .bandwidth_hidden = 2.6e9};
  r.sensitivity = {{"network bandwidth", "10 % more", 0.0296, 1.054, true},
                   {"host", "10 % faster", 0.0312, 1, false}};
  r.gpu = {.busy = 0.95, .computing = 0.7, .communicating = 0.71, .launches = 1283, .launching = 0.0077};
  r.memory = {.peak = 6.1e9,
              .parameters = 102228128,
              .gradients = 102228128,
              .optimizer = 102228129,
              .activations = 5.1e9,
              .workspace = 3e8,
              .buckets = 1.1e8,
              .capacity = 1.41e11,
              .fits = true};
  r.job = JobPrediction{.time = 7032.5,
                        .low = 6800.5,
                        .high = 7260.25,
                        .updates = 225180,
                        .epochs = 90,
                        .samples = 115305030,
                        .gpu_hours = 15.6,
                        .cost = 39.07,
                        .currency = "USD",
                        .price_date = "2026-11-01",
                        .energy = 2.5e7,
                        .training = 7025.6,
                        .evaluation = 4.9,
                        .checkpoint = 1.5,
                        .startup = 0.4,
                        .rescale = 0.1,
                        .phases = {{90, 512, 8, 0.0312, 225180, 7025.6, 115305030, 0.1, 0.001}},
                        .speedup = JobSpeedup{"second-node", 2.5, 2, 1.25, 1.25},
                        .target = JobTarget{"loss", 1.58, true, 5000, 160, 150, 171, 2},
                        .failures = JobFailures{1.5, 3.25, 6.5, 16},
                        .checkpoint_bytes = 204456257,
                        .samples_law = "fixed_epochs",
                        .assumption = "equal epochs, accuracy not predicted",
                        .answers = {"The next 10,000 updates take 5 min."},
                        .progress = {{10, 1, 2502, 512, 8, 0.1, 2.5}}};
  r.warnings = {"a batch of 64 on 8 workers is \"large\", see the report"};
  r.extrapolated = {{"all-reduce over 8 ranks", "98 MB", "256 B to 64 MiB"}};
  return r;
}

}  // namespace foretrain::test
