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

}  // namespace

std::unique_ptr<device::Program> build_program(const Scenario& scenario, const RankOptions& options,
                                               device::Worker& worker) {
  const device::BuildOptions how = build_options(scenario, options);
  const auto refuse = [&](const std::string& what) {
    const Memory estimate = estimate_memory(*scenario.model, how.batch, how.precision,
                                            scenario.strategy.gradients, how.optimizer, nullptr)
                                .memory;
    throw Error(ErrorKind::failure,
                fmt::format("model '{}' with a batch of {} per worker does not fit into the device's memory "
                            "(a step needs about {:.3g} GB): {}",
                            scenario.model->name, scenario.batch_per_worker, estimate.peak / 1e9, what));
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

}  // namespace foretrain
