// The programs of one rank: of a full batch, of the short last ones of an epoch, of evaluation, of rows of
// other lengths. They share weights, gradients, the optimizer's state and the memory for activations, and
// differ in how many samples they take at a time and how long these are.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "execute/rank_build.hpp"
#include "execute/trainer.hpp"

namespace foretrain {

class SizedPrograms {
 public:
  // `full` and `trainer` are those of the scenario's batch; all arguments outlive this.
  SizedPrograms(const Scenario& scenario, const RankOptions& options, const RankPlace& place,
                device::Worker& worker, device::Communicator* communicator,
                const std::vector<double>& item_end, device::Program& full, Trainer& trainer);

  struct Sized {
    device::Program* program = nullptr;
    Trainer* trainer = nullptr;
    std::int64_t batch = 0;  // samples at a time
  };
  // To train a share of so many samples, in the scenario's number of micro-batches; `length`: of their rows,
  // 0 for the model's own.
  Sized of_share(std::int64_t share, std::int64_t length = 0);
  // For forward passes over so many samples at a time; 0: as many as in training. No trainer.
  Sized of_passes(std::int64_t batch);

 private:
  struct Owned {
    std::shared_ptr<const Model> model;
    std::unique_ptr<device::Program> program;
    std::unique_ptr<Trainer> trainer;
  };
  // Where another program made the last update, this one's copies of the weights are made anew.
  Sized up_to_date(Sized sized);
  Owned& resized(std::int64_t batch, std::int64_t length);

  const Scenario& scenario_;
  const RankOptions& options_;
  const RankPlace& place_;
  device::Worker& worker_;
  device::Communicator* communicator_;
  const std::vector<double>& item_end_;
  Sized full_;
  std::map<std::pair<std::int64_t, std::int64_t>, Owned> others_;  // by samples at a time and their length
  device::Program* last_;                                          // that ran
};

void give(const Batch& batch, device::Program& program);

// Seconds are the caller's to take. Forward passes over the input that lies on the device, back to back.
void run_passes(device::Worker& worker, device::Program& program, std::int64_t passes,
                const std::function<void()>& each);

// The mean loss of a rank's batches over the first samples of the data, read ahead by a thread of their own;
// without data over the one that lies on the device.
double mean_loss(device::Worker& worker, device::Program& program, const DataSource* data,
                 const RankPlace& place, std::int64_t batch, std::int64_t passes,
                 const std::function<void()>& each);

}  // namespace foretrain
