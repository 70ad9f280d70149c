#include "device/reference/optimizer.hpp"

#include <cmath>

namespace foretrain::device::reference {

void clip(std::vector<Tensor>& gradients, double norm) {
  if (norm <= 0) return;
  double squares = 0;
  for (const Tensor& gradient : gradients)
    for (const double value : gradient) squares += value * value;
  const double factor = norm / (std::sqrt(squares) + 1e-6);
  if (factor >= 1) return;
  for (Tensor& gradient : gradients)
    for (double& value : gradient) value *= factor;
}

void ReferenceOptimizer::begin(const std::vector<Tensor>& parameters) {
  const bool is_sgd = options_.kind == OptimizerKind::sgd;
  for (const Tensor& parameter : parameters) {
    if (!is_sgd || options_.momentum != 0) first_.emplace_back(parameter.size(), 0.0);
    if (!is_sgd) second_.emplace_back(parameter.size(), 0.0);
  }
}

void ReferenceOptimizer::update(std::size_t parameter, Tensor gradient, Tensor& weights) {
  const Optimizer& o = options_;
  if (o.kind == OptimizerKind::sgd) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      double g = gradient[i] + o.weight_decay * weights[i];
      if (o.momentum != 0) {
        double& velocity = first_[parameter][i];
        velocity = o.momentum * velocity + g;
        g = o.nesterov ? g + o.momentum * velocity : velocity;
      }
      weights[i] -= o.learning_rate * g;
    }
    return;
  }
  const double correction1 = 1 - std::pow(o.beta1, step_), correction2 = 1 - std::pow(o.beta2, step_);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    double g = gradient[i];
    if (o.kind == OptimizerKind::adamw) {
      weights[i] -= o.learning_rate * o.weight_decay * weights[i];
    } else {
      g += o.weight_decay * weights[i];
    }
    double &first = first_[parameter][i], &second = second_[parameter][i];
    first = o.beta1 * first + (1 - o.beta1) * g;
    second = o.beta2 * second + (1 - o.beta2) * g * g;
    weights[i] -= o.learning_rate * (first / correction1) / (std::sqrt(second / correction2) + o.epsilon);
  }
}

}  // namespace foretrain::device::reference
