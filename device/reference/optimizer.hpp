// Updates of parameters in double precision, in the order of operations of PyTorch's optimizers.
#pragma once

#include <vector>

#include "device/reference/layers.hpp"
#include "sim/training/model.hpp"

namespace foretrain::device::reference {

// Scales gradients down to the norm over all of them, where it is larger; 0: not at all. As PyTorch's
// clip_grad_norm_, which adds 1e-6 to the norm.
void clip(std::vector<Tensor>& gradients, double norm);

class ReferenceOptimizer {
 public:
  explicit ReferenceOptimizer(const Optimizer& options) : options_(options) {}

  void begin(const std::vector<Tensor>& parameters);
  void begin_step() { step_ += 1; }
  // sgd: g += decay p; v = momentum v + g; p -= rate (nesterov ? g + momentum v : v).
  // adam (Kingma & Ba 2014), adamw (Loshchilov & Hutter 2017: the decay apart from the gradient).
  void update(std::size_t parameter, Tensor gradient, Tensor& weights);
  void set_learning_rate(double rate) { options_.learning_rate = rate; }

  template <typename Visit>
  void each_state(Visit visit) {
    visit(step_);
    for (auto* moments : {&first_, &second_})
      for (Tensor& tensor : *moments)
        for (double& value : tensor) visit(value);
  }

 private:
  Optimizer options_;
  double step_ = 0;
  std::vector<Tensor> first_, second_;  // momentum or first moment; second moment
};

}  // namespace foretrain::device::reference
