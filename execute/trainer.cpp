#include "execute/trainer.hpp"

#include <algorithm>
#include <utility>

namespace foretrain {

using device::StreamKind;

Trainer::Trainer(device::Worker& worker, device::Program& program, device::Communicator* communicator,
                 const Model& model, const Strategy& strategy, int rank, int workers,
                 const std::vector<double>& item_end, bool captures)
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
  rows_.resize(buckets_.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (buckets_[b].bucket.is_sparse())
      rows_[b] = worker_.allocate(workers * program_.sparse_bytes(table_of(b)));
  }
  const int averaged = strategy.kind == StrategyKind::independent ? 1 : workers;
  program_.set_gradient_scale(1.0 / (static_cast<double>(averaged) * strategy.accumulation));
  if (!captures) return;
  way_ = Way::recording;
  for (const bool phases : {false, true}) {
    StepMarks marks;
    marks.phases = phases;
    walk(marks, [](int) {});
  }
  way_ = Way::recorded;
}

Trainer::~Trainer() {
  for (const device::Buffer& rows : rows_)
    if (rows.data != nullptr) worker_.release(rows);
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
  if (way_ == Way::recorded) program_.prepare_recorded_update();
  walk(marks, next_input);
}

void Trainer::walk(const StepMarks& marks, const std::function<void(int)>& next_input) {
  next_part_ = 0;
  add([this] {
    program_.prepare_weights();
    program_.zero_gradients();
  });
  for (int micro = 0; micro < strategy_.accumulation; ++micro) {
    const bool last = micro + 1 == strategy_.accumulation;
    if (micro > 0) end_part(marks);  // it reads the input before
    if (strategy_.accumulation > 1) add([this, adds = micro > 0] { program_.accumulate_gradients(adds); });
    if (next_input) next_input(micro);
    add([this] {
      for (const device::WorkItem& item : program_.forward_items()) program_.issue(item);
    });
    if (marks.phases && last) record(marks, marks.forward_end);
    walk_backward(marks, last);
  }
  join_communication(marks);
  if (marks.phases) record(marks, marks.joined);
  if (moves_weights()) {
    exchange_weights(marks);
  } else {
    add([this] { program_.update(); });
  }
  record(marks, marks.end);
}

void Trainer::walk_backward(const StepMarks& marks, bool communicates) {
  const auto items = static_cast<int>(program_.backward_items().size());
  int done = 0;
  const auto issue_to = [&](int end) {
    if (end == done) return;
    add([this, first = done, end] {
      const auto all = program_.backward_items();
      for (int i = first; i < end; ++i) program_.issue(all[static_cast<std::size_t>(i)]);
    });
    done = end;
  };
  for (std::size_t b = communicates ? 0 : buckets_.size(); b < buckets_.size(); ++b) {
    issue_to(std::max(done, buckets_[b].bucket.ready + 1));
    if (buckets_[b].bucket.is_sparse()) {
      add([this, b] { program_.gather_rows(table_of(b), own_rows(b)); });
    }
    end_part(marks);
    if (way_ != Way::recording) issue_bucket(b, marks);
  }
  issue_to(items);
  if (communicates && marks.phases) record(marks, marks.backward_end);
}

void Trainer::add(std::function<void()> work) {
  if (way_ == Way::direct) return work();
  if (way_ == Way::recording) part_.push_back(std::move(work));
  has_part_ = true;
}

void Trainer::end_part(const StepMarks& marks) {
  if (!has_part_) return;
  has_part_ = false;
  auto& parts = parts_[marks.phases ? 1 : 0];
  if (way_ == Way::recorded) return parts[next_part_++]->issue();
  parts.push_back(worker_.record_work([works = std::move(part_)] {
    for (const auto& work : works) work();
  }));
  part_.clear();
}

void Trainer::record(const StepMarks& marks, device::Event event) {
  end_part(marks);
  if (way_ != Way::recording) worker_.record(event, StreamKind::compute);
}

void Trainer::issue_bucket(std::size_t index, const StepMarks& marks) {
  const PlannedBucket& planned = buckets_[index];
  worker_.record(marks.ready[index], StreamKind::compute);
  worker_.wait(StreamKind::communication, marks.ready[index]);
  const bool to_server = strategy_.kind == StrategyKind::parameter_server;
  const device::ElementType element = element_of(strategy_.gradients);
  const auto finish = [&] {
    if (marks.phases || index + 1 == buckets_.size())
      worker_.record(marks.finished[index], StreamKind::communication);
  };
  if (planned.bucket.is_sparse()) {
    // Whatever lies in it, bytes are gathered.
    communicator_->enqueue(CollectiveKind::all_gather, rows_[index], rows_[index].bytes,
                           device::ElementType::fp32);
    return finish();
  }
  const CollectiveKind kind = to_server ? CollectiveKind::reduce : CollectiveKind::all_reduce;
  const int root = to_server ? planned.server : 0;
  communicator_->enqueue(kind, planned.gradients, planned.gradients.bytes, element, root);
  for (const device::Buffer& part : planned.further)
    communicator_->enqueue(kind, part, part.bytes, element, root);
  finish();
}

// The communication stream runs in order: its last collective ends last.
void Trainer::join_communication(const StepMarks& marks) {
  if (buckets_.empty()) return;
  end_part(marks);
  if (way_ != Way::recording) worker_.wait(StreamKind::compute, marks.finished.back());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (!buckets_[b].bucket.is_sparse()) continue;
    add([this, b] { program_.add_rows(table_of(b), rows_[b], workers_); });
  }
}

device::Buffer Trainer::own_rows(std::size_t bucket) const {
  const std::int64_t own = rows_[bucket].bytes / workers_;
  return {static_cast<std::byte*>(rows_[bucket].data) + rank_ * own, own};
}

void Trainer::exchange_weights(const StepMarks& marks) {
  if (own_.size() == buckets_.size()) {
    add([this] { program_.update(); });
  } else if (!own_.empty()) {
    add([this] { program_.update_parts(own_); });
  }
  // Also on ranks that update nothing: their backward pass must not read what a broadcast writes.
  record(marks, marks.updated);
  if (way_ != Way::recording) {
    worker_.wait(StreamKind::communication, marks.updated);
    for (const PlannedBucket& planned : buckets_) {
      communicator_->enqueue(CollectiveKind::broadcast, planned.weights, planned.weights.bytes,
                             program_.weight_type(), planned.server);
    }
    worker_.record(marks.received, StreamKind::communication);
    worker_.wait(StreamKind::compute, marks.received);
  }
  add([this] { program_.weights_changed(); });
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
