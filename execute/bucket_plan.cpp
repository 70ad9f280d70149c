#include "execute/bucket_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foretrain {
namespace {

std::int64_t bytes_of(device::ElementType type) {
  switch (type) {
    case device::ElementType::fp32:
      return 4;
    case device::ElementType::fp64:
      return 8;
    case device::ElementType::bf16:
    case device::ElementType::fp16:
      break;
  }
  return 2;
}

// For every parameter the item of the backward pass that completes its gradient.
std::vector<int> completing_items(const Model& model, const device::Program& program) {
  constexpr int none = -1;
  std::vector<int> completing(model.parameters.size(), none);
  const auto items = program.backward_items();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].pass != Pass::backward_weights) continue;
    for (int p : model.layers.at(static_cast<std::size_t>(items[i].layer)).parameters) {
      completing.at(static_cast<std::size_t>(p)) = static_cast<int>(i);
    }
  }
  for (std::size_t p = 0; p < completing.size(); ++p) {
    if (completing[p] != none) continue;
    throw Error(ErrorKind::failure, fmt::format("nothing in the backward pass makes the gradient of '{}'",
                                                model.parameters[p].name));
  }
  return completing;
}

bool communicates(const Strategy& strategy, int workers) {
  return strategy.kind != StrategyKind::independent && workers > 1;
}

device::Buffer part(device::Buffer whole, std::int64_t first, std::int64_t last, std::int64_t width) {
  if (first < 0 || last * width > whole.bytes) {
    throw Error(ErrorKind::failure, "a bucket does not lie within the flat buffer");
  }
  return {static_cast<std::byte*>(whole.data) + first * width, (last - first) * width};
}

void add_part(PlannedBucket& bucket, device::Buffer part) {
  if (bucket.gradients.bytes == 0) {
    bucket.gradients = part;
  } else {
    bucket.further.push_back(part);
  }
}

}  // namespace

device::ElementType element_of(Precision gradients) {
  switch (gradients) {
    case Precision::bf16:
      return device::ElementType::bf16;
    case Precision::fp16:
      return device::ElementType::fp16;
    case Precision::fp32:
    case Precision::tf32:
      break;
  }
  return device::ElementType::fp32;
}

bool needs_item_end(const Strategy& strategy, int workers) {
  return communicates(strategy, workers) && strategy.fusion.kind == FusionKind::horovod;
}

std::vector<PlannedBucket> plan_buckets(const Model& model, const Strategy& strategy, int workers,
                                        device::Program& program, const std::vector<double>& item_end) {
  std::vector<PlannedBucket> plan;
  if (!communicates(strategy, workers)) return plan;
  const bool is_dense = strategy.fusion.embedding == EmbeddingGradient::dense;
  if (!is_dense && (strategy.kind != StrategyKind::ddp || strategy.accumulation > 1))
    throw Error(
        ErrorKind::input,
        "run: embedding_gradient: rows of tables are gathered with kind ddp alone, and not of several "
        "micro-batches");
  const GradientOrder order{completing_items(model, program), item_end};
  const std::int64_t width = bytes_of(element_of(strategy.gradients));
  const bool moves_weights = strategy.kind == StrategyKind::parameter_server;
  const int servers = std::clamp(strategy.servers, 1, workers);
  std::int64_t end_before = 0;
  for (Bucket& bucket : fuse(model, strategy.fusion, strategy.gradients, order)) {
    PlannedBucket planned;
    if (bucket.is_sparse()) {
      planned.bucket = std::move(bucket);
      plan.push_back(std::move(planned));
      continue;
    }
    std::int64_t last = program.gradient_offset(bucket.parameters.front()), first = last + bucket.skipped;
    int before = 0;
    for (int p : bucket.parameters) {
      const std::int64_t offset = program.gradient_offset(p);
      if (!is_dense && p + 1 < before) {
        // What was left out between is a table.
        add_part(planned, part(program.gradients(), first, last, width));
        first = last = offset;
      }
      before = p;
      if (offset < last) {
        throw Error(ErrorKind::failure,
                    "parameters do not lie in reverse registration order: buckets are not contiguous");
      }
      last = offset + model.parameters[static_cast<std::size_t>(p)].elements;
    }
    last -= bucket.left;
    if (first < end_before) throw Error(ErrorKind::failure, "buckets overlap in the flat gradient buffer");
    end_before = last;
    planned.range = {first, last};
    add_part(planned, part(program.gradients(), first, last, width));
    if (moves_weights) {
      planned.weights = part(program.weights(), first, last, bytes_of(program.weight_type()));
    }
    planned.server = static_cast<int>(plan.size()) % servers;
    planned.bucket = std::move(bucket);
    plan.push_back(std::move(planned));
  }
  return plan;
}

}  // namespace foretrain
