#include "execute/step_meter.hpp"

#include <thread>

namespace foretrain {
namespace {

constexpr std::chrono::microseconds poll_interval{20};

}  // namespace

StepMeter::StepMeter(device::Worker& worker, Trainer& trainer, std::function<void()> interrupted, Sink sink,
                     std::function<void()> pause)
    : worker_(worker),
      trainer_(trainer),
      interrupted_(std::move(interrupted)),
      sink_(std::move(sink)),
      pause_(std::move(pause)) {
  if (!pause_) pause_ = [] { std::this_thread::sleep_for(poll_interval); };
  // One more than are under way, since a step is read from the end of the one before.
  for (int i = 0; i < run_ahead + 2; ++i) marks_.push_back(trainer.make_marks());
  start_ = worker_.make_event();
}

void StepMeter::restart() {
  drain();
  worker_.record(start_, device::StreamKind::compute);
  await(start_);
  seen_ = Clock::now();
  first_after_restart_ = true;
}

const StepMarks& StepMeter::begin_step(bool phases) {
  interrupted_();
  while (issued_ - harvested_ >= run_ahead) harvest();
  StepMarks& marks = marks_[slot(issued_)];
  marks.phases = phases;
  return marks;
}

void StepMeter::drain() {
  while (harvested_ < issued_) harvest();
}

void StepMeter::await(device::Event event) {
  while (!worker_.reached(event)) {
    interrupted_();
    pause_();
  }
}

void StepMeter::harvest() {
  const StepMarks& marks = marks_[slot(harvested_)];
  await(marks.end);
  const Clock::time_point now = Clock::now();
  StepTiming timing = read(marks, first_after_restart_ ? start_ : marks_[slot(harvested_ - 1)].end);
  timing.step_host = std::chrono::duration<double>(now - seen_).count();
  seen_ = now;
  first_after_restart_ = false;
  ++harvested_;
  sink_(timing);
}

StepTiming StepMeter::read(const StepMarks& marks, device::Event begin) {
  StepTiming timing;
  const auto since_begin = [&](device::Event event) { return worker_.seconds_between(begin, event); };
  timing.step = since_begin(marks.end);
  timing.has_phases = marks.phases;
  if (!marks.phases) return timing;
  timing.forward = since_begin(marks.forward_end);
  timing.backward = worker_.seconds_between(marks.forward_end, marks.backward_end);
  timing.exposed_communication = worker_.seconds_between(marks.backward_end, marks.joined);
  device::Event update_end = marks.end;
  if (trainer_.moves_weights()) {
    update_end = marks.updated;
    timing.exposed_communication += worker_.seconds_between(marks.updated, marks.end);
  }
  timing.optimizer = worker_.seconds_between(marks.joined, update_end);
  for (std::size_t b = 0; b < marks.ready.size(); ++b) {
    timing.ready.push_back(since_begin(marks.ready[b]));
    timing.finished.push_back(since_begin(marks.finished[b]));
  }
  return timing;
}

}  // namespace foretrain
