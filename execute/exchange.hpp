// Small values exchanged between the ranks of a run, over the communicator that they train with: every rank
// takes the same decisions, and the first one collects what all have measured.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "device/backend.hpp"

namespace foretrain {

class Exchange {
 public:
  // The communicator may be null where there is one rank. The worker's streams are drained at each exchange.
  Exchange(device::Worker& worker, device::Communicator* communicator);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  int ranks() const { return communicator_ == nullptr ? 1 : communicator_->ranks(); }
  // What every rank gives, in rank order; sizes may differ.
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine);
  std::vector<double> all_gather(double mine);
  double greatest(double mine);
  double mean(double mine);
  void barrier() { all_gather(0.0); }

 private:
  std::vector<std::byte> gather_equal(std::span<const std::byte> mine);
  void synchronize();

  device::Worker& worker_;
  device::Communicator* communicator_;
  device::Buffer buffer_;
  device::Event done_;
};

}  // namespace foretrain
