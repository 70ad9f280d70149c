#include "sim/input/optimizer_reader.hpp"

#include <string>

#include "sim/input/fields.hpp"
#include "sim/input/model_schema.hpp"

namespace foretrain {

Optimizer read_optimizer(const Value& map, const Optimizer& base, Diagnostics& diagnostics) {
  const Fields fields(&map, optimizer_schema());
  OptimizerKind kind = fields.has("kind") ? OptimizerKind::sgd : base.kind;
  const std::string name = fields.text("kind").value_or("sgd");
  for (const OptimizerKind each : {OptimizerKind::adam, OptimizerKind::adamw})
    if (fields.has("kind") && name == name_of(each)) kind = each;

  Optimizer optimizer = kind == base.kind ? base : Optimizer();
  optimizer.kind = kind;
  const bool is_sgd = kind == OptimizerKind::sgd;
  if (!is_sgd && kind != base.kind) optimizer.learning_rate = 1e-3;  // PyTorch's default for both
  if (kind == OptimizerKind::adamw && kind != base.kind) optimizer.weight_decay = 1e-2;
  const auto take = [&](const char* key, double& value, bool belongs) {
    if (!fields.has(key)) return;
    if (belongs) {
      value = fields.number(key).value_or(value);
    } else {
      diagnostics.error(fields.where(key), std::string(key) + ": " + name_of(kind) + " has none");
    }
  };
  take("learning_rate", optimizer.learning_rate, true);
  take("weight_decay", optimizer.weight_decay, true);
  take("clip_norm", optimizer.clip_norm, true);
  take("momentum", optimizer.momentum, is_sgd);
  take("beta1", optimizer.beta1, !is_sgd);
  take("beta2", optimizer.beta2, !is_sgd);
  take("epsilon", optimizer.epsilon, !is_sgd);
  if (fields.has("nesterov")) {
    optimizer.nesterov = fields.boolean("nesterov").value_or(false);
    if (!is_sgd)
      diagnostics.error(fields.where("nesterov"), std::string("nesterov: ") + name_of(kind) + " has none");
    if (is_sgd && optimizer.nesterov && optimizer.momentum == 0)
      diagnostics.error(fields.where("nesterov"), "nesterov: it needs a momentum above 0");
  }
  return optimizer;
}

}  // namespace foretrain
