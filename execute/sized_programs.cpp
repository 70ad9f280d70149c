#include "execute/sized_programs.hpp"

#include <algorithm>

#include "execute/batch_reader.hpp"

namespace foretrain {
namespace {

void issue_forward(device::Program& program) {
  for (const device::WorkItem& item : program.forward_items()) program.issue(item);
}

}  // namespace

SizedPrograms::SizedPrograms(const Scenario& scenario, const RankOptions& options, const RankPlace& place,
                             device::Worker& worker, device::Communicator* communicator,
                             const std::vector<double>& item_end, device::Program& full, Trainer& trainer)
    : scenario_(scenario),
      options_(options),
      place_(place),
      worker_(worker),
      communicator_(communicator),
      item_end_(item_end),
      full_{&full, &trainer, scenario.batch_per_worker / scenario.strategy.accumulation},
      last_(&full) {}

SizedPrograms::Owned& SizedPrograms::resized(std::int64_t batch, std::int64_t length) {
  Owned& owned = others_[{batch, length}];
  if (!owned.program) {
    owned.model = length == 0 ? scenario_.model : model_of_length(scenario_, length);
    owned.program = build_resized(scenario_, *owned.model, batch, options_, worker_, *full_.program);
    owned.program->synthesize_input(options_.seed + static_cast<std::uint64_t>(place_.rank));
  }
  return owned;
}

SizedPrograms::Sized SizedPrograms::up_to_date(Sized sized) {
  if (sized.program != last_) sized.program->weights_updated_elsewhere();
  last_ = sized.program;
  return sized;
}

SizedPrograms::Sized SizedPrograms::of_share(std::int64_t share, std::int64_t length) {
  const std::int64_t batch = std::max<std::int64_t>(1, share / scenario_.strategy.accumulation);
  if (length == scenario_.model->sequence) length = 0;
  if (batch == full_.batch && length == 0) return up_to_date(full_);
  Owned& owned = resized(batch, length);
  if (!owned.trainer) {
    owned.trainer =
        std::make_unique<Trainer>(worker_, *owned.program, communicator_, *owned.model, scenario_.strategy,
                                  place_.rank, place_.world, item_end_, scenario_.execution.cuda_graph);
  }
  return up_to_date({owned.program.get(), owned.trainer.get(), batch});
}

SizedPrograms::Sized SizedPrograms::of_passes(std::int64_t batch) {
  if (batch == 0 || batch == full_.batch) return up_to_date(full_);
  return up_to_date({resized(batch, 0).program.get(), nullptr, batch});
}

void give(const Batch& batch, device::Program& program) {
  if (batch.tokens.empty()) {
    program.set_input(batch.samples, batch.labels);
  } else {
    program.set_tokens(batch.tokens, batch.labels);
  }
}

void run_passes(device::Worker& worker, device::Program& program, std::int64_t passes,
                const std::function<void()>& each) {
  constexpr std::int64_t most_queued = 16;
  program.prepare_weights();
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    issue_forward(program);
    if (pass % most_queued == most_queued - 1) worker.synchronize();
    each();
  }
  worker.synchronize();
}

double mean_loss(device::Worker& worker, device::Program& program, const DataSource* data,
                 const RankPlace& place, std::int64_t batch, std::int64_t passes,
                 const std::function<void()>& each) {
  if (data == nullptr) {
    run_passes(worker, program, passes, each);
    return program.loss();
  }
  BatchReader reader(*data, {0, batch, place.rank, place.world}, [](BatchPlace& at) { ++at.update; });
  program.prepare_weights();
  double sum = 0;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    reader.take([&](const Batch& read) { give(read, program); });
    issue_forward(program);
    sum += program.loss();
    each();
  }
  return sum / static_cast<double>(std::max<std::int64_t>(1, passes));
}

}  // namespace foretrain
