#include "sim/import/kineto.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/base/quantile.hpp"
#include "sim/import/lines.hpp"
#include "sim/import/trace_collection.hpp"
#include "sim/import/trace_reader.hpp"
#include "sim/import/trace_steps.hpp"
#include "sim/import/traced_collectives.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/workload_json.hpp"
#include "sim/training/gradient_copies.hpp"

namespace foretrain {
namespace {

// The steps that launched the same in the same order, as most did; the fastest host of them: what disturbs a
// host only makes it slower.
struct ChosenSteps {
  std::vector<const TracedStep*> alike;
  const TracedStep* fastest = nullptr;
  double slowest = 1;  // its host's time over the fastest's
  double sigma = 0;    // of the logarithms of the hosts' times
};

void find_spread(ChosenSteps& chosen) {
  const double fastest = chosen.fastest->host;
  const auto n = static_cast<double>(chosen.alike.size());
  if (!(fastest > 0) || n < 2) return;
  double sum = 0, squares = 0;
  for (const TracedStep* each : chosen.alike) {
    const double log = std::log(each->host / fastest);
    chosen.slowest = std::max(chosen.slowest, each->host / fastest);
    sum += log;
    squares += log * log;
  }
  chosen.sigma = std::sqrt(std::max(0.0, (squares - sum * sum / n) / (n - 1)));
}

ChosenSteps choose(const TracedJob& job) {
  std::map<std::vector<std::string>, std::vector<const TracedStep*>> by_items;
  for (const TracedStep& step : job.steps) {
    std::vector<std::string> items;
    for (const TracedItem& item : step.items) items.push_back(item.name);
    by_items[items].push_back(&step);
  }
  ChosenSteps out;
  for (const auto& [items, steps] : by_items)
    if (steps.size() > out.alike.size() ||
        (steps.size() == out.alike.size() && items.size() > out.alike.front()->items.size()))
      out.alike = steps;
  out.fastest = *std::min_element(out.alike.begin(), out.alike.end(),
                                  [](const TracedStep* a, const TracedStep* b) { return a->host < b->host; });
  find_spread(out);
  return out;
}

// Medians over the steps of each item's time on the device.
TracedStep typical(const ChosenSteps& chosen) {
  TracedStep step = *chosen.fastest;
  step.device = 0;
  for (std::size_t i = 0; i < step.items.size(); ++i) {
    std::vector<double> device;
    for (const TracedStep* each : chosen.alike) device.push_back(each->items[i].device);
    step.device += step.items[i].device = median(std::move(device));
  }
  return step;
}

Precision precision_of(const TraceCollection& trace) {
  double all = 0, bf16 = 0, fp16 = 0, tf32 = 0;
  std::vector<int> kind_of_name;
  for (const DeviceActivity& each : trace.device) {
    if (!each.is_kernel || each.collective >= 0) continue;
    const auto index = static_cast<std::size_t>(each.name);
    if (index >= kind_of_name.size()) kind_of_name.resize(index + 1, -1);
    int& kind = kind_of_name[index];
    if (kind < 0) {
      const std::string name = lower_case(trace.name(each.name));
      const auto holds = [&](const char* part) { return name.find(part) != std::string::npos; };
      kind = holds("bf16") || holds("bfloat16")                                                       ? 1
             : holds("half") || holds("fp16") || holds("f16f16") || holds("h16816") || holds("hgemm") ? 2
             : holds("tf32") || holds("s1688") || holds("xmma_gemm_f32f32_tf32")                      ? 3
                                                                                                      : 0;
    }
    all += each.duration;
    if (kind == 1) bf16 += each.duration;
    if (kind == 2) fp16 += each.duration;
    if (kind == 3) tf32 += each.duration;
  }
  constexpr double share = 0.2;
  if (bf16 > share * all && bf16 >= fp16) return Precision::bf16;
  if (fp16 > share * all) return Precision::fp16;
  return tf32 > share * all ? Precision::tf32 : Precision::fp32;
}

// What the host takes, as factors of its time in the trace.
struct HostScale {
  double scale = 1, low = 1, high = 1;
  std::string text;
};

HostScale host_scale(const TracedStep& step, const TracedJob& job, double slowest,
                     const ImportOptions& options) {
  HostScale out;
  const double events = job.profiler * static_cast<double>(step.events);
  const double estimated = step.host > 0 ? std::clamp(1 - events / step.host, 0.05, 1.0) : 1;
  if (options.step && step.host > 0) {
    const double as_given = *options.step / step.host;
    // Where the device is busy for the whole step the host is only known to take no longer.
    constexpr double bound_by_device = 1.02;
    const double busy = step.device + step.exposed;
    if (*options.step <= busy * bound_by_device) {
      out.scale = std::min(estimated, as_given);
      out.low = 0.5 * out.scale;
      out.high = std::max(out.scale, as_given);
      out.text = fmt::format(
          "the step of {} is bound by the device ({} of kernels{}): the host takes up to that, about {}",
          format_time(*options.step), format_time(step.device),
          step.exposed > 0 ? fmt::format(" and {} of collectives with none beside", format_time(step.exposed))
                           : std::string(),
          format_time(out.scale * step.host));
    } else {
      out.scale = as_given;
      // As far as the trace's own steps are apart.
      out.low = as_given / slowest;
      out.high = as_given * slowest;
      out.text = fmt::format("the host's {} of the traced step are scaled to {}", format_time(step.host),
                             format_time(as_given * step.host));
    }
    return out;
  }
  out.scale = estimated;
  out.low = 0;
  out.high = slowest;
  out.text = fmt::format(
      "no --step: the profiler slows the host, and how much is not known. Estimated {} of {} a step ({} "
      "events at {}); the "
      "host is taken for anything from kernels alone to as traced",
      format_time(events), format_time(step.host), step.events, format_time(job.profiler));
  return out;
}

Sample exactly(double seconds) {
  return {seconds, seconds, seconds, 0, 1};
}

class Builder {
 public:
  Builder(const TraceCollection& trace, const TraceReading& reading, const TracedJob& job,
          const TracedStep& step, const HostScale& host, const ImportOptions& options,
          std::vector<std::string>& notes)
      : trace_(trace),
        reading_(reading),
        job_(job),
        step_(step),
        host_(host),
        options_(options),
        notes_(notes) {}

  // `sigma`: of the host from step to step.
  Workload build(int steps, double sigma) {
    Workload& out = workload_;
    out.precision = options_.precision.value_or(precision_of(trace_));
    out.batch = options_.batch.value_or(job_.batch.value_or(1));
    out.model.name = data_name(options_.target == "-" ? "workload" : options_.target);
    out.model.unit = "samples";
    out.model.optimizer.kind = job_.optimizer == "Adam"    ? OptimizerKind::adam
                               : job_.optimizer == "AdamW" ? OptimizerKind::adamw
                                                           : OptimizerKind::sgd;
    Profile& profile = out.profile;
    profile.name = out.model.name;
    profile.device = "cuda";
    CalibrationRun run;
    run.command = "import kineto";
    run.machine.gpu = reading_.head.gpu;
    run.machine.gpus = reading_.head.gpus;
    run.machine.memory_bytes = reading_.head.memory_bytes;
    run.machine.nccl = reading_.head.nccl;
    profile.runs.push_back(std::move(run));
    add_layers();
    add_update();
    add_step(steps);
    add_gradient_copies();
    add_collectives();
    if (sigma > 0) {
      NoiseEntry noise;
      noise.what = "host";
      noise.model = out.model.name;
      noise.precision = out.precision;
      noise.batch = out.batch;
      noise.sigma = sigma;
      profile.noise.push_back(std::move(noise));
    }
    LaunchCosts launches;
    launches.gap = exactly(job_.gap);
    launches.latency = exactly(job_.latency);
    profile.launches.push_back(launches);
    return std::move(workload_);
  }

 private:
  PassTiming timing(const TracedItem& item) const {
    return {exactly(item.device), exactly(item.host * host_.scale), static_cast<double>(item.launches)};
  }

  void add_layer(const std::string& name, const TracedItem& item, Pass pass) {
    Model& model = workload_.model;
    Layer layer;
    layer.name = fmt::format("{} {}", name, item.name);
    layer.kind = LayerKind::relu;
    layer.inputs = {static_cast<int>(model.layers.size()) - 1};
    OperatorEntry entry;
    entry.layer = layer.name;
    entry.context = model.name;
    entry.precision = workload_.precision;
    entry.batch = workload_.batch;
    entry.passes[static_cast<std::size_t>(pass)] = timing(item);
    model.layers.push_back(std::move(layer));
    entry.key = operator_key(model, model.layers.back());
    workload_.profile.operators.push_back(std::move(entry));
  }

  void add_layers() {
    Model& model = workload_.model;
    Layer input;
    input.name = "input";
    model.layers.push_back(std::move(input));
    std::vector<const TracedItem*> backward;
    int forward = 0;
    for (const TracedItem& item : step_.items) {
      if (item.phase == Phase::forward && !item.is_before)
        add_layer(fmt::format("f{}", ++forward), item, Pass::forward);
      if (item.phase == Phase::backward && !item.is_copy) backward.push_back(&item);
    }
    // The last layer's backward pass comes first.
    const std::size_t first = model.layers.size();
    for (std::size_t b = backward.size(); b-- > 0;)
      add_layer(fmt::format("b{}", b + 1), *backward[b], Pass::backward_weights);
    // Registration order: DDP takes gradients in the reverse of it, which is the order in which they were
    // ready.
    for (std::size_t g = step_.gradients.size(); g-- > 0;) {
      const TracedGradient& gradient = step_.gradients[g];
      Parameter parameter;
      parameter.name = fmt::format("gradient{}", g + 1);
      for (const std::int64_t size : gradient.shape)
        parameter.name += (parameter.name.find(' ') == std::string::npos ? " " : "x") + std::to_string(size);
      parameter.elements = gradient.elements;
      parameter.shape = {gradient.elements};
      const std::size_t layer = first + backward.size() - 1 - static_cast<std::size_t>(gradient.ready);
      parameter.layer = static_cast<int>(layer);
      model.layers[layer].parameters.push_back(static_cast<int>(model.parameters.size()));
      model.parameters.push_back(std::move(parameter));
    }
  }

  void add_update() {
    TracedItem update, before;
    for (const TracedItem& item : step_.items) {
      TracedItem& sum = item.is_before ? before : update;
      if (item.phase != Phase::optimizer && !item.is_before) continue;
      sum.device += item.device;
      sum.host += item.host;
      sum.launches += item.launches;
    }
    OptimizerEntry entry;
    entry.model = workload_.model.name;
    entry.precision = workload_.precision;
    entry.parameters = static_cast<double>(workload_.model.parameter_count());
    entry.update = timing(update);
    Optimizer optimizer = workload_.model.optimizer;
    entry.kind = optimizer_entry_name(optimizer);
    workload_.profile.optimizers.push_back(entry);
    if (optimizer.kind == OptimizerKind::sgd) {  // the trace does not tell whether with momentum
      optimizer.momentum = 0.9;
      entry.kind = optimizer_entry_name(optimizer);
      workload_.profile.optimizers.push_back(entry);
    }
    if (before.launches == 0 && before.host <= 0) return;
    add_work("zero_gradients", timing(before));
  }

  void add_work(const char* what, const PassTiming& times) {
    StepWorkEntry work;
    work.what = what;
    work.model = workload_.model.name;
    work.precision = workload_.precision;
    work.batch = workload_.batch;
    work.timing = times;
    workload_.profile.step_work.push_back(std::move(work));
  }

  // Only what is known of the host; no step was measured where none was given.
  void add_step(int steps) {
    StepEntry entry;
    entry.model = workload_.model.name;
    entry.precision = workload_.precision;
    entry.batch = workload_.batch;
    // What ranks of several GPUs take together is no sum of one's parts.
    if (options_.step && !has_collectives()) entry.step = exactly(*options_.step);
    entry.step.repetitions = 0;
    entry.launches = step_.kernels;
    entry.host = {host_.scale * step_.host, host_.low * step_.host, host_.high * step_.host, 0, steps};
    workload_.profile.steps.push_back(std::move(entry));
  }

  // PyTorch's DDP copies each gradient into its bucket as it divides it, and back before the update. A trace
  // of several GPUs shows it. One of one GPU does not: at the rate of the trace's own element-wise kernels
  // over the gradients, the update's, and with the host's time for a launch.
  void add_gradient_copies() {
    if (step_.gradients.empty()) return;
    if (has_collectives()) {
      // In and back, each once over all gradients.
      TracedItem both;
      for (const TracedItem& item : step_.items) {
        if (!item.is_copy) continue;
        both.device += item.device / 2;
        both.host += item.host / 2;
        both.launches += item.launches;
      }
      if (both.launches == 0) return;
      both.launches = (both.launches + 1) / 2;
      add_work(gradient_copies_work, timing(both));
      return;
    }
    double bytes = 0, update = 0, host = 0;
    int launches = 0;
    for (const TracedGradient& each : step_.gradients) bytes += 4.0 * static_cast<double>(each.elements);
    for (const TracedItem& item : step_.items) {
      if (item.phase == Phase::optimizer) update += item.device;
      host += item.host * host_.scale;
      launches += item.launches;
    }
    // SGD with momentum moves five times the gradients' bytes, Adam seven.
    const double moved = workload_.model.optimizer.kind == OptimizerKind::sgd ? 5 : 7;
    const double of_a_byte = bytes > 0 ? update / (moved * bytes) : 0;
    const auto count = static_cast<double>(step_.gradients.size());
    // Reads and writes each byte once.
    add_work(gradient_copies_work, {exactly(2 * bytes * of_a_byte + count * job_.gap),
                                    exactly(launches > 0 ? count * host / launches : 0), count});
  }

  bool has_collectives() const {
    return std::any_of(trace_.device.begin(), trace_.device.end(),
                       [](const DeviceActivity& each) { return each.collective >= 0; });
  }

  void add_collectives() {
    workload_.profile.collectives = traced_collectives(trace_, reading_.head, options_, notes_);
    if (workload_.profile.collectives.empty()) return;
    // The trace's kernels ran beside its collectives, and these beside them: nothing is to be added.
    InterferenceEntry beside;
    beside.model = workload_.model.name;
    beside.precision = workload_.precision;
    beside.batch = workload_.batch;
    beside.ranks = workload_.profile.collectives.front().ranks;
    beside.bytes = workload_.profile.collectives.back().bytes;
    beside.compute_slowdown = beside.collective_slowdown = exactly(1);
    workload_.profile.interference.push_back(std::move(beside));
  }

  const TraceCollection& trace_;
  const TraceReading& reading_;
  const TracedJob& job_;
  const TracedStep& step_;
  const HostScale& host_;
  const ImportOptions& options_;
  std::vector<std::string>& notes_;
  Workload workload_;
};

void add_damage_notes(const TraceReading& reading, const TraceCollection& trace,
                      std::vector<std::string>& notes) {
  const TraceDamage& damage = reading.damage;
  auto note = [&](std::int64_t count, const char* what) {
    if (count > 0) notes.push_back(fmt::format("{} {}", count, what));
  };
  note(damage.bad_utf8, "events are not UTF-8: their names are kept as they are");
  note(damage.control_characters, "events hold control characters: replaced by blanks");
  note(damage.repaired_quotes, "events lack a closing quote: repaired");
  note(damage.dropped, "events could not be read: dropped");
  note(damage.string_ids, "events have numbers as text: read as numbers");
  note(trace.negative, "events have a negative duration: dropped");
  note(trace.huge, "events last longer than 1,000 s: dropped");
  note(trace.without_time, "events have no start or no duration: dropped");
  note(trace.without_correlation, "kernels and copies name no launch: they belong to no step");
  if (damage.is_cut) notes.emplace_back("the trace ends within its list of events: what was there is taken");
  if (!damage.compression.empty()) notes.push_back(damage.compression + ": what was there is taken");
}

void check_strict(const TraceCollection& trace, const ImportOptions& options) {
  if (!options.strict) return;
  const std::int64_t wrong = trace.negative + trace.huge + trace.without_time;
  if (wrong > 0)
    throw Error(ErrorKind::input,
                fmt::format("{}: {} events have an impossible start or duration", options.file, wrong));
}

}  // namespace

Imported import_kineto(const ByteSource& bytes, const ImportOptions& options) {
  TraceCollection trace;
  const TraceReading reading = read_trace(bytes, options.file, options.strict, [&](const TraceEvent& event) {
    const std::int64_t wrong = trace.negative + trace.huge + trace.without_time;
    trace.take(event);
    if (options.strict && trace.negative + trace.huge + trace.without_time > wrong)
      check_strict(trace, options);
  });
  trace.sort();
  const TracedJob job = traced_steps(trace, options.file);
  const ChosenSteps chosen = choose(job);
  const TracedStep step = typical(chosen);
  const HostScale host = host_scale(step, job, chosen.slowest, options);
  Imported out;
  add_damage_notes(reading, trace, out.notes);
  if (!step.is_marked)
    out.notes.emplace_back("the trace has no step marks (profiler.step()): steps go from update to update");
  if (chosen.alike.size() < job.steps.size())
    out.notes.push_back(fmt::format("{} of {} steps launched something else and are left out",
                                    job.steps.size() - chosen.alike.size(), job.steps.size()));
  if (reading.head.world_size == 0)
    out.notes.emplace_back("the trace does not say its rank: taken for rank 0 of one");
  out.notes.push_back(host.text);
  if (options.step && *options.step < 0.98 * step.device)
    out.notes.push_back(
        fmt::format("--step {} is shorter than the {} of its kernels in the trace: the profiler slowed the "
                    "device as well",
                    format_time(*options.step), format_time(step.device)));
  if (step.gradients.empty())
    out.notes.emplace_back(
        "the trace has no shapes of gradients (record_shapes=True): only one worker can be simulated");
  if (!job.batch && !options.batch)
    out.notes.emplace_back("the batch is not in the trace: taken for 1; say it with --batch");
  Builder builder(trace, reading, job, step, host, options, out.notes);
  const Workload workload = builder.build(static_cast<int>(chosen.alike.size()), chosen.sigma);
  out.summary = fmt::format(
      "{} steps of {} kernels, {} on the device; traced step {}; batch {}, {}, {} gradients of {}",
      chosen.alike.size(), step.kernels, format_time(step.device), format_time(step.traced), workload.batch,
      name_of(workload.precision), workload.model.parameters.size(),
      format_bytes(4.0 * static_cast<double>(workload.model.parameter_count())));
  out.content = workload_to_json(workload);
  return out;
}

Imported import_kineto_text(std::string_view bytes, const ImportOptions& options) {
  std::size_t at = 0;
  return import_kineto(
      [&](std::span<char> buffer) {
        const std::size_t count = std::min(buffer.size(), bytes.size() - at);
        std::memcpy(buffer.data(), bytes.data() + at, count);
        at += count;
        return count;
      },
      options);
}

}  // namespace foretrain
