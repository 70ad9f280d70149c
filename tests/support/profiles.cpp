#include "tests/support/profiles.hpp"

namespace foretrain::test {
namespace {

Sample sample(double seconds) {
  Sample out;
  out.median = out.low = out.high = seconds;
  out.repetitions = 30;
  return out;
}

bool timed(const Layer& layer) {
  return !layer.parameters.empty() || layer.kind == LayerKind::softmax_cross_entropy;
}

}  // namespace

int timed_layers(const Model& model) {
  int n = 0;
  for (const Layer& layer : model.layers) n += timed(layer) ? 1 : 0;
  return n;
}

Profile made_profile(const Model& model, const std::vector<std::int64_t>& batches) {
  Profile profile;
  profile.name = "made";
  profile.device = "reference";
  CalibrationRun run;
  run.date = "2026-01-01T00:00:00Z";
  run.command = "made by a rule, for tests";
  run.machine.gpu = "made GPU";
  run.machine.compute_capability = "9.0";
  run.machine.gpus = 8;
  run.machine.memory_bytes = 80e9;
  profile.runs.push_back(run);
  for (std::int64_t batch : batches) {
    for (const Layer& layer : model.layers) {
      if (!timed(layer)) continue;
      OperatorEntry entry;
      entry.key = operator_key(model, layer);
      entry.layer = layer.name;
      entry.context = model.name;
      entry.precision = Precision::bf16;
      entry.batch = batch;
      for (PassTiming& pass : entry.passes) {
        pass.device = sample(10e-6 + 1e-6 * static_cast<double>(batch));
        pass.host = sample(5e-6);
        pass.launches = 1;
      }
      profile.operators.push_back(entry);
    }
  }
  OptimizerEntry optimizer;
  optimizer.kind = "sgd-momentum";
  optimizer.model = model.name;
  optimizer.precision = Precision::bf16;
  optimizer.parameters = static_cast<double>(model.parameter_count());
  optimizer.update.device = sample(100e-6);
  optimizer.update.host = sample(5e-6);
  optimizer.update.launches = 1;
  profile.optimizers.push_back(optimizer);
  for (int ranks : {2, 4, 8}) {
    for (std::int64_t bytes = 256; bytes <= (1 << 30); bytes *= 2) {
      CollectiveEntry entry;
      entry.kind = "all_reduce";
      entry.ranks = ranks;
      entry.network = "nvlink";
      entry.algorithm = "auto";
      entry.protocol = "auto";
      entry.chosen_algorithm = "ring";
      entry.chosen_protocol = "Simple";
      entry.element = "fp32";
      entry.bytes = bytes;
      entry.time = sample(20e-6 + 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / 100e9);
      entry.host = 10e-6;
      profile.collectives.push_back(entry);
    }
  }
  LaunchCosts costs;
  costs.latency = sample(4e-6);
  costs.queue_depth = 1024;
  profile.launches.push_back(costs);
  return profile;
}

}  // namespace foretrain::test
