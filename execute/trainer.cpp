#include "execute/trainer.hpp"

namespace foretrain {

using device::StreamKind;

Trainer::Trainer(device::Worker& worker, device::Program& program, device::Communicator* communicator,
                 const Model& model, const Strategy& strategy, int rank, int workers,
                 const std::vector<double>& item_end)
    : worker_(worker),
      program_(program),
      communicator_(communicator),
      strategy_(strategy),
      rank_(rank),
      workers_(workers),
      buckets_(plan_buckets(model, strategy, workers, program, item_end)) {
  if (!buckets_.empty() && communicator_ == nullptr) {
    throw Error(ErrorKind::failure, "workers that exchange gradients need a communicator");
  }
  for (const PlannedBucket& planned : buckets_) {
    if (planned.server == rank_) own_.push_back(planned.range);
  }
  const int averaged = strategy.kind == StrategyKind::independent ? 1 : workers;
  program_.set_gradient_scale(1.0 / (static_cast<double>(averaged) * strategy.accumulation));
}

StepMarks Trainer::make_marks() {
  StepMarks marks;
  marks.end = worker_.make_event();
  marks.forward_end = worker_.make_event();
  marks.backward_end = worker_.make_event();
  marks.joined = worker_.make_event();
  marks.updated = worker_.make_event();
  marks.received = worker_.make_event();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    marks.ready.push_back(worker_.make_event());
    marks.finished.push_back(worker_.make_event());
  }
  return marks;
}

void Trainer::issue_step(const StepMarks& marks, const std::function<void(int)>& next_input) {
  program_.prepare_weights();
  program_.zero_gradients();
  for (int micro = 0; micro < strategy_.accumulation; ++micro) {
    const bool last = micro + 1 == strategy_.accumulation;
    if (strategy_.accumulation > 1) program_.accumulate_gradients(micro > 0);
    if (next_input) next_input(micro);
    for (const device::WorkItem& item : program_.forward_items()) program_.issue(item);
    if (marks.phases && last) worker_.record(marks.forward_end, StreamKind::compute);
    issue_backward(marks, last);
  }
  join_communication(marks);
  if (marks.phases) worker_.record(marks.joined, StreamKind::compute);
  if (moves_weights()) {
    exchange_weights(marks);
  } else {
    program_.update();
  }
  worker_.record(marks.end, StreamKind::compute);
}

void Trainer::issue_backward(const StepMarks& marks, bool communicates) {
  const auto items = program_.backward_items();
  std::size_t next = communicates ? 0 : buckets_.size();
  for (std::size_t i = 0; i < items.size(); ++i) {
    program_.issue(items[i]);
    for (; next < buckets_.size() && buckets_[next].bucket.ready == static_cast<int>(i); ++next)
      issue_bucket(next, marks);
  }
  if (communicates && marks.phases) worker_.record(marks.backward_end, StreamKind::compute);
}

void Trainer::issue_bucket(std::size_t index, const StepMarks& marks) {
  const PlannedBucket& planned = buckets_[index];
  worker_.record(marks.ready[index], StreamKind::compute);
  worker_.wait(StreamKind::communication, marks.ready[index]);
  const bool to_server = strategy_.kind == StrategyKind::parameter_server;
  communicator_->enqueue(to_server ? CollectiveKind::reduce : CollectiveKind::all_reduce, planned.gradients,
                         planned.gradients.bytes, element_of(strategy_.gradients),
                         to_server ? planned.server : 0);
  if (marks.phases || index + 1 == buckets_.size()) {
    worker_.record(marks.finished[index], StreamKind::communication);
  }
}

// The communication stream runs in order: its last collective ends last.
void Trainer::join_communication(const StepMarks& marks) {
  if (!buckets_.empty()) worker_.wait(StreamKind::compute, marks.finished.back());
}

void Trainer::exchange_weights(const StepMarks& marks) {
  if (own_.size() == buckets_.size()) {
    program_.update();
  } else if (!own_.empty()) {
    program_.update_parts(own_);
  }
  // Also on ranks that update nothing: their backward pass must not read what a broadcast writes.
  worker_.record(marks.updated, StreamKind::compute);
  worker_.wait(StreamKind::communication, marks.updated);
  for (const PlannedBucket& planned : buckets_) {
    communicator_->enqueue(CollectiveKind::broadcast, planned.weights, planned.weights.bytes,
                           program_.weight_type(), planned.server);
  }
  worker_.record(marks.received, StreamKind::communication);
  worker_.wait(StreamKind::compute, marks.received);
  program_.weights_changed();
}

int Trainer::launches() const {
  int total = 0;
  for (const device::WorkItem& item : program_.forward_items()) total += program_.launches(item);
  for (const device::WorkItem& item : program_.backward_items()) total += program_.launches(item);
  total *= strategy_.accumulation;
  total += program_.prepare_launches() + program_.zero_launches();
  if (!moves_weights() || !own_.empty()) total += program_.update_launches();
  return total + static_cast<int>(buckets_.size()) * (moves_weights() ? 2 : 1);
}

}  // namespace foretrain
