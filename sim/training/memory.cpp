#include "sim/training/memory.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "sim/training/batch_curve.hpp"
#include "sim/training/whole_steps.hpp"

namespace foretrain {
namespace {

constexpr std::int64_t parameter_alignment = 128;  // elements: 256 bytes in bf16
constexpr std::int64_t channel_arrays = 9;  // running and batch moments, scale, shift, three coefficients
constexpr double most_assumed_half = 128.0 * (1 << 20);   // of workspace, in bf16 and fp16
constexpr double most_assumed_full = 1024.0 * (1 << 20);  // in fp32 and tf32
// A CUDA context with cuDNN, cuBLASLt and NCCL loaded, which no process can use otherwise.
constexpr double context_bytes = 1.0e9;

bool is_half(Precision precision) {
  return precision == Precision::bf16 || precision == Precision::fp16;
}

// Images of few channels get further ones of zeros up to a whole word, where convolutions without groups
// alone read them.
std::int64_t stored_channels(const Model& model, Precision precision) {
  const std::int64_t channels = model.input.empty() ? 1 : model.input[0];
  for (const Layer& layer : model.layers) {
    if (std::find(layer.inputs.begin(), layer.inputs.end(), 0) == layer.inputs.end()) continue;
    if (layer.kind != LayerKind::conv2d || layer.window.groups != 1) return channels;
  }
  const std::int64_t word = is_half(precision) ? 8 : 4;
  return (channels + word - 1) / word * word;
}

// A weight's gradient is made aside in fp32 before it goes to the flat buffer.
double gradient_aside(const Model& model) {
  double weight = 0;
  for (const Parameter& parameter : model.parameters)
    weight = std::max(weight, static_cast<double>(parameter.elements));
  return 4 * weight;
}

// Where nothing was measured. Tensor cores want channels-last operands in half precision, and engines ask for
// about one of them; in fp32 and tf32 many bring both operands into another layout first. The limits are
// those within which the search for plans looks. On an H100 this puts the peak of 48 models, batches and
// precisions within 6 % of what was measured, those in bf16 within 4 %.
double assumed_workspace(const Model& model, std::int64_t batch, Precision precision) {
  double operand = 0;
  for (const Layer& layer : model.layers)
    operand = std::max(operand, static_cast<double>(element_count(layer.output)));
  operand *= static_cast<double>(batch) * activation_bytes(precision);
  return is_half(precision) ? std::min(operand, most_assumed_half) : std::min(2 * operand, most_assumed_full);
}

// Of the entries of the model and precision at the nearest measured batch; 0 where the profile has none.
double measured_workspace(const Model& model, std::int64_t batch, Precision precision,
                          const Profile& profile) {
  std::int64_t above = 0, below = 0;
  const auto belongs = [&](const OperatorEntry& entry) {
    return entry.context == model.name && entry.precision == precision && entry.workspace_bytes > 0;
  };
  for (const OperatorEntry& entry : profile.operators) {
    if (!belongs(entry)) continue;
    if (entry.batch >= batch && (above == 0 || entry.batch < above)) above = entry.batch;
    if (entry.batch < batch) below = std::max(below, entry.batch);
  }
  const std::int64_t nearest = above > 0 ? above : below;
  double most = 0;
  for (const OperatorEntry& entry : profile.operators)
    if (belongs(entry) && entry.batch == nearest) most = std::max(most, entry.workspace_bytes);
  return most;
}

using StepsByBatch = std::map<std::int64_t, const StepEntry*>;  // the latest of each

// Whole programs of the model and precision that know their workspace, by length of sequence: those of the
// model's own length, else of the measured ones on either side of it, or the nearest one.
std::map<std::int64_t, StepsByBatch> steps_beside(const Model& model, Precision precision,
                                                  const Profile& profile) {
  std::map<std::int64_t, StepsByBatch> all, out;
  for (const StepEntry& entry : profile.steps) {
    if (is_step_of(entry, model.name, precision, entry.sequence) && entry.workspace_bytes > 0)
      all[entry.sequence][entry.batch] = &entry;
  }
  const auto above = all.lower_bound(model.sequence);
  if (above != all.end()) out.insert(*above);
  if (above != all.begin() && (above == all.end() || above->first != model.sequence))
    out.insert(*std::prev(above));
  return out;
}

// A number that `of` knows at each length, at the model's own.
template <typename F>
double across_lengths(const Model& model, const std::map<std::int64_t, StepsByBatch>& lengths, F&& of) {
  const auto& [least, first] = *lengths.begin();
  const auto& [most, last] = *lengths.rbegin();
  if (least == most) return of(least, first);
  const double share = static_cast<double>(model.sequence - least) / static_cast<double>(most - least);
  return (1 - share) * of(least, first) + share * of(most, last);
}

// In between by batch and by length; nothing where the profile has none.
std::optional<double> workspace_of_steps(const Model& model, std::int64_t batch, Precision precision,
                                         const Profile& profile) {
  const auto lengths = steps_beside(model, precision, profile);
  if (lengths.empty()) return std::nullopt;
  return across_lengths(model, lengths, [&](std::int64_t, const StepsByBatch& steps) {
    std::map<std::int64_t, double> known;
    for (const auto& [of_batch, entry] : steps) known.emplace(of_batch, entry->workspace_bytes);
    return at_batch(known, std::clamp(batch, known.begin()->first, known.rbegin()->first)).value;
  });
}

double optimizer_bytes(const Optimizer& optimizer) {  // of a parameter
  return optimizer.kind != OptimizerKind::sgd ? 8 : optimizer.momentum != 0 ? 4 : 0;
}

// Of the optimizer that calibration trained the model with.
double calibrated_optimizer_bytes(const Model& model, Precision precision, const Profile& profile) {
  double bytes = optimizer_bytes(model.optimizer);
  for (const OptimizerEntry& entry : profile.optimizers) {
    if (entry.model == model.name && entry.precision == precision)
      bytes = entry.kind == "sgd" ? 0 : entry.kind.starts_with("sgd") ? 4 : 8;
  }
  return bytes;
}

// On GPUs, further from the measured peak the sum of parts is of another program, which says nothing of other
// batches. At its own batch and length the peak is what a run has; and on CPUs, whose primitives keep
// operands in layouts of their own and copies of weights, the parts that are known lack a third.
constexpr double most_unaccounted = 0.15;

// What measured peaks of whole steps hold besides the parts that are known: at the batch and length, or
// between those beside it. Activations of another length count as proportional to it.
double unaccounted(const Model& model, std::int64_t batch, Precision precision, double activations,
                   const Profile& profile) {
  const double a_parameter =
      (is_half(precision) ? 6 : 4) + 4 + calibrated_optimizer_bytes(model, precision, profile);
  const double parameters = static_cast<double>(flat_elements(model)) * a_parameter;
  const auto found = [&](std::int64_t length, const StepEntry& entry) {
    const double of_model = entry.batch == batch
                                ? activations
                                : static_cast<double>(activation_plan(model, entry.batch, precision).bytes());
    const double own = length == model.sequence
                           ? of_model
                           : of_model * static_cast<double>(length) / static_cast<double>(model.sequence);
    const double rest = entry.peak_bytes - parameters - own - entry.workspace_bytes;
    const bool is_asked = entry.batch == batch && length == model.sequence;
    if (is_asked || profile.device == "cpu") return rest;
    return std::abs(rest) > most_unaccounted * entry.peak_bytes ? 0 : rest;
  };
  auto lengths = steps_beside(model, precision, profile);
  for (auto& [length, steps] : lengths)
    std::erase_if(steps, [](const auto& step) { return !(step.second->peak_bytes > 0); });
  std::erase_if(lengths, [](const auto& of_length) { return of_length.second.empty(); });
  if (lengths.empty()) return 0;
  return across_lengths(model, lengths, [&](std::int64_t length, const StepsByBatch& known) {
    const auto above = known.lower_bound(batch);
    if (above == known.end()) return found(length, *std::prev(above)->second);
    if (above == known.begin() || above->first == batch) return found(length, *above->second);
    const auto below = std::prev(above);
    const double share =
        static_cast<double>(batch - below->first) / static_cast<double>(above->first - below->first);
    return (1 - share) * found(length, *below->second) + share * found(length, *above->second);
  });
}

double capacity_of(const Profile& profile) {
  double least = 0;
  for (const CalibrationRun& run : profile.runs) {
    const double bytes = run.machine.memory_bytes;
    if (bytes > 0 && (least == 0 || bytes < least)) least = bytes;
  }
  return least > context_bytes ? least - context_bytes : 0;
}

}  // namespace

int activation_bytes(Precision precision) {
  return is_half(precision) ? 2 : 4;
}

ActivationPlan activation_plan(const Model& model, std::int64_t batch, Precision precision) {
  ActivationPlan plan;
  const int size = activation_bytes(precision);
  plan.lowered = lowering::lower(model, batch, size);
  plan.arena_bytes = plan.lowered.arena_bytes;
  if (model.tokens > 0) {
    plan.input_bytes = batch * 4 * (element_count(model.input) + model.targets());
  } else {
    plan.input_channels = stored_channels(model, precision);
    const std::int64_t pixels = model.input.size() == 3 ? model.input[1] * model.input[2] : 1;
    plan.input_bytes = batch * pixels * plan.input_channels * size;
  }
  for (const Layer& layer : model.layers) {
    if (layer.kind == LayerKind::batch_norm) plan.statistics_bytes += channel_arrays * 4 * layer.output[0];
    if (is_recurrence(layer.kind)) {
      const std::int64_t sequence = model.layers[static_cast<std::size_t>(layer.inputs[0])].output[0];
      plan.reserve_bytes += lowering::recurrence_reserve_bytes(layer, sequence, batch, size);
    }
  }
  return plan;
}

std::int64_t flat_elements(const Model& model) {
  std::int64_t elements = 0;
  for (const Parameter& parameter : model.parameters)
    elements += (parameter.elements + parameter_alignment - 1) / parameter_alignment * parameter_alignment;
  return elements;
}

MemoryEstimate estimate_memory(const Model& model, std::int64_t batch, Precision precision,
                               Precision gradients, const Optimizer& optimizer, const Profile* profile) {
  MemoryEstimate estimate;
  Memory& memory = estimate.memory;
  const auto elements = static_cast<double>(flat_elements(model));
  memory.parameters = elements * (is_half(precision) ? 6 : 4);
  memory.gradients = elements * activation_bytes(gradients);
  memory.optimizer = elements * optimizer_bytes(optimizer);
  if (model.is_graph())
    memory.activations = static_cast<double>(activation_plan(model, batch, precision).bytes());
  std::optional<double> of_steps;
  if (profile) of_steps = workspace_of_steps(model, batch, precision, *profile);
  if (of_steps) {
    memory.workspace =
        std::max(0.0, *of_steps + unaccounted(model, batch, precision, memory.activations, *profile));
    estimate.workspace_origin = Origin::measured;
  } else {
    if (profile) memory.workspace = measured_workspace(model, batch, precision, *profile);
    estimate.workspace_origin = memory.workspace > 0 ? Origin::measured : Origin::assumed;
    if (memory.workspace == 0 && model.is_graph())
      memory.workspace = assumed_workspace(model, batch, precision);
    if (model.is_graph()) memory.workspace += gradient_aside(model);
  }
  memory.peak =
      memory.parameters + memory.gradients + memory.optimizer + memory.activations + memory.workspace;
  if (profile) memory.capacity = capacity_of(*profile);
  memory.fits = memory.capacity == 0 || memory.peak <= memory.capacity;
  return estimate;
}

std::int64_t largest_batch(const Model& model, Precision precision, Precision gradients,
                           const Optimizer& optimizer, const Profile& profile) {
  if (!model.is_graph() || capacity_of(profile) == 0) return 0;
  const auto fits = [&](std::int64_t batch) {
    return estimate_memory(model, batch, precision, gradients, optimizer, &profile).memory.fits;
  };
  std::int64_t good = 0, bad = 1;
  while (bad < (std::int64_t{1} << 24) && fits(bad)) {
    good = bad;
    bad *= 2;
  }
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace foretrain
