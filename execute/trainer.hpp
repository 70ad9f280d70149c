// One rank's optimizer step, enqueued: forward, backward with the buckets' collectives beside it on the
// communication stream, update.
//
// ddp: every bucket is summed over all ranks as soon as it is complete; all ranks update.
//   A table whose gradient is sparse is a bucket of rows and numbers that all ranks gather.
// parameter_server: every bucket is summed on its server (bucket b on rank b mod servers) as soon as it is
//   complete; after the last sum each server updates its buckets' parameters, and broadcasts them to all.
// independent: no communication.
// Collectives are not recorded: the watchdog aborts communicators, which a captured one would not survive,
// and a step split at its buckets needs only one launch a bucket more. With accumulation, the gradients of
// all micro-batches are added up first; buckets leave in the last one.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "execute/bucket_plan.hpp"

namespace foretrain {

// Markers of one step. The step before ends where this one begins.
struct StepMarks {
  device::Event end;                                // of the step on the compute stream
  bool phases = false;                              // the rest of the boundaries are recorded too
  device::Event forward_end, backward_end, joined;  // joined: all gradients have been exchanged
  device::Event updated, received;                  // parameter_server: by the servers; weights from them
  std::vector<device::Event> ready, finished;       // a bucket's gradients complete; its collective ended
};

class Trainer {
 public:
  // The communicator may be null for one worker and for independent workers. `item_end`: see plan_buckets.
  // `captures`: all that a step computes is recorded now, and each step issues the recordings: one between
  // two buckets, all of it in one where nothing is sent and no phase is timed. Throws Error (unavailable)
  // where the backend cannot.
  Trainer(device::Worker& worker, device::Program& program, device::Communicator* communicator,
          const Model& model, const Strategy& strategy, int rank, int workers,
          const std::vector<double>& item_end = {}, bool captures = false);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // next_input(micro_batch) is called before each forward pass; may be empty.
  void issue_step(const StepMarks& marks, const std::function<void(int)>& next_input = {});

  StepMarks make_marks();
  const std::vector<PlannedBucket>& buckets() const { return buckets_; }
  // parameter_server with more than one worker: weights are broadcast after the update.
  bool moves_weights() const { return strategy_.kind == StrategyKind::parameter_server && !buckets_.empty(); }
  int launches() const;  // of a step: kernels, copies and collectives

 private:
  // direct: what is added is issued at once. recording: it is kept and recorded at the end of its part, and
  // nothing is issued. recorded: at the end of a part its recording is issued.
  enum class Way { direct, recording, recorded };
  void walk(const StepMarks& marks, const std::function<void(int)>& next_input);
  void walk_backward(const StepMarks& marks, bool communicates);
  void add(std::function<void()> work);
  void end_part(const StepMarks& marks);
  void record(const StepMarks& marks, device::Event event);  // on the compute stream; ends a part
  int table_of(std::size_t bucket) const { return buckets_[bucket].bucket.parameters.front(); }
  device::Buffer own_rows(std::size_t bucket) const;
  void issue_bucket(std::size_t index, const StepMarks& marks);
  void join_communication(const StepMarks& marks);
  void exchange_weights(const StepMarks& marks);

  device::Worker& worker_;
  device::Program& program_;
  device::Communicator* communicator_;
  Strategy strategy_;
  int rank_, workers_;
  std::vector<PlannedBucket> buckets_;
  std::vector<device::FlatRange> own_;  // parameter_server: what this rank updates
  std::vector<device::Buffer> rows_;    // by bucket: of all ranks, where they are gathered
  Way way_ = Way::direct;
  std::vector<std::function<void()>> part_;
  bool has_part_ = false;
  std::size_t next_part_ = 0;
  std::vector<std::unique_ptr<device::Recording>> parts_[2];  // of steps without and with phases
};

}  // namespace foretrain
