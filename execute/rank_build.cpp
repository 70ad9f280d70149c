#include "execute/rank_build.hpp"

#include <fmt/format.h>

#include <new>
#include <stdexcept>

#include "execute/bucket_plan.hpp"
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
  return build;
}

std::unique_ptr<device::Program> build(const Scenario& scenario, const device::BuildOptions& how,
                                       device::Worker& worker) {
  const auto refuse = [&](const std::string& what) {
    const Memory estimate = estimate_memory(*scenario.model, how.batch, how.precision,
                                            scenario.strategy.gradients, how.optimizer, nullptr)
                                .memory;
    throw Error(ErrorKind::failure,
                fmt::format("model '{}' with a batch of {} per worker does not fit into the device's memory "
                            "(a step needs about {:.3g} GB): {}",
                            scenario.model->name, how.batch, estimate.peak / 1e9, what));
  };
  try {
    return worker.build(*scenario.model, how);
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
  return build(scenario, build_options(scenario, options), worker);
}

std::unique_ptr<device::Program> build_resized(const Scenario& scenario, std::int64_t batch,
                                               const RankOptions& options, device::Worker& worker,
                                               device::Program& shares) {
  device::BuildOptions how = build_options(scenario, options);
  how.batch = batch;
  how.shares = &shares;
  return build(scenario, how, worker);
}

}  // namespace foretrain
