#include "execute/rank_build.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "execute/bucket_plan.hpp"
#include "sim/input/sequence_lengths.hpp"
#include "sim/training/memory.hpp"

namespace foretrain {
namespace {

device::BuildOptions build_options(const Scenario& scenario, const RankOptions& options) {
  if (scenario.batch_per_worker % scenario.strategy.accumulation != 0) {
    throw Error(ErrorKind::input,
                fmt::format("a batch of {} per worker cannot be split into {} micro-batches",
                            scenario.batch_per_worker, scenario.strategy.accumulation));
  }
  device::BuildOptions build;
  build.batch = scenario.batch_per_worker / scenario.strategy.accumulation;
  build.precision = scenario.precision;
  build.gradients = element_of(scenario.strategy.gradients);
  build.optimizer = scenario.optimizer;
  build.deterministic = scenario.execution.deterministic;
  build.seed = options.seed;
  build.plan_candidates = options.plan_candidates;
  build.gathers_rows = scenario.strategy.fusion.embedding != EmbeddingGradient::dense;
  return build;
}

std::unique_ptr<device::Program> build(const Scenario& scenario, const Model& model,
                                       const device::BuildOptions& how, device::Worker& worker) {
  const auto refuse = [&](const std::string& what) {
    const Memory estimate =
        estimate_memory(model, how.batch, how.precision, scenario.strategy.gradients, how.optimizer, nullptr)
            .memory;
    throw Error(ErrorKind::failure,
                fmt::format("model '{}' with a batch of {} per worker does not fit into the device's memory "
                            "(a step needs about {:.3g} GB): {}",
                            model.name, how.batch, estimate.peak / 1e9, what));
  };
  try {
    return worker.build(model, how);
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.find("out of memory") == std::string::npos) throw;
    refuse(what);
  } catch (const std::bad_alloc&) {
    refuse("the host is out of memory");
  } catch (const std::length_error&) {
    refuse("no container is that large");
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<device::Program> build_program(const Scenario& scenario, const RankOptions& options,
                                               device::Worker& worker) {
  return build(scenario, *scenario.model, build_options(scenario, options), worker);
}

std::unique_ptr<device::Program> build_resized(const Scenario& scenario, const Model& model,
                                               std::int64_t batch, const RankOptions& options,
                                               device::Worker& worker, device::Program& shares) {
  device::BuildOptions how = build_options(scenario, options);
  how.batch = batch;
  how.shares = &shares;
  return build(scenario, model, how, worker);
}

std::shared_ptr<const Model> model_of_length(const Scenario& scenario, std::int64_t length) {
  auto model = scenario.lengths->model_at(length);
  const auto same = [](const Parameter& a, const Parameter& b) { return a.shape == b.shape; };
  if (model && std::equal(model->parameters.begin(), model->parameters.end(),
                          scenario.model->parameters.begin(), scenario.model->parameters.end(), same))
    return model;
  throw Error(
      ErrorKind::input,
      fmt::format("run: the parameters of model '{}' depend on the length of its sequences ({} and {}): it "
                  "cannot train rows of unequal lengths",
                  scenario.model->name, length, scenario.model->sequence));
}

}  // namespace foretrain
