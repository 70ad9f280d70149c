#include "sim/import/trace_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/error.hpp"
#include "sim/base/quantile.hpp"
#include "sim/import/trace_overlap.hpp"

namespace foretrain {
namespace {

constexpr double from_microseconds = 1e-6;

struct Window {
  double begin = 0, end = 0;
  std::uint64_t thread = 0;
  bool is_marked = false;
};

// Ranges of one thread that do not overlap, by their starts.
class Ranges {
 public:
  void add(const HostRange& range) {
    std::vector<HostRange>& own = by_thread_[range.thread];
    // Within the one before: that is the outer one.
    if (!own.empty() && range.start < own.back().end()) return;
    own.push_back(range);
  }
  const HostRange* around(std::uint64_t thread, double time) const {
    const auto found = by_thread_.find(thread);
    if (found == by_thread_.end()) return nullptr;
    const std::vector<HostRange>& own = found->second;
    auto after = std::upper_bound(own.begin(), own.end(), time,
                                  [](double t, const HostRange& r) { return t < r.start; });
    if (after == own.begin()) return nullptr;
    --after;
    return time < after->end() ? &*after : nullptr;
  }
  bool has_thread(std::uint64_t thread) const { return by_thread_.contains(thread); }

 private:
  std::map<std::uint64_t, std::vector<HostRange>> by_thread_;
};

class Analysis {
 public:
  Analysis(const TraceCollection& trace, const std::string& file)
      : trace_(trace), file_(file), overlap_(trace) {}

  TracedJob run() {
    sort_launches();
    find_ranges();
    find_queue_times();
    double launched = 0, all = 0;
    for (const DeviceActivity& each : trace_.device) all += each.collective < 0 ? each.duration : 0;
    for (const Window& window : windows()) {
      TracedStep step = read_step(window);
      if (step.kernels == 0) continue;
      for (const TracedItem& item : step.items) launched += item.device;
      job_.steps.push_back(std::move(step));
    }
    if (job_.steps.empty())
      throw Error(ErrorKind::input,
                  file_ + ": has no step with a kernel on the device: was it recorded with CUDA activities?");
    const double gaps = job_.gap * static_cast<double>(job_.steps.size()) * job_.steps.front().kernels;
    job_.outside = all > 0 ? std::clamp(1 - (launched - gaps) / (all * from_microseconds), 0.0, 1.0) : 0;
    find_profiler_cost();
    return std::move(job_);
  }

 private:
  bool is_named(const HostRange& range, std::string_view beginning) const {
    return trace_.name(range.name).starts_with(beginning);
  }

  void sort_launches() {
    for (std::size_t i = 0; i < trace_.device.size(); ++i)
      if (trace_.device[i].correlation >= 0) by_correlation_.emplace_back(trace_.device[i].correlation, i);
    std::sort(by_correlation_.begin(), by_correlation_.end());
  }

  std::pair<std::size_t, std::size_t> activities_of(std::int64_t correlation) const {
    const auto less = [](const auto& a, const auto& b) { return a.first < b.first; };
    const auto [first, last] = std::equal_range(by_correlation_.begin(), by_correlation_.end(),
                                                std::pair(correlation, std::size_t{0}), less);
    return {static_cast<std::size_t>(first - by_correlation_.begin()),
            static_cast<std::size_t>(last - by_correlation_.begin())};
  }

  void find_ranges() {
    for (const HostRange& range : trace_.operators) {
      const bool is_backward = is_named(range, "autograd::engine::evaluate_function");
      if (is_backward) backward_.add(range);
      // DistributedDataParallel divides a gradient into its bucket, and copies it back.
      if (is_named(range, "torch::distributed::reducer::mul_out") ||
          is_named(range, "torch.distributed.ddp.reducer::copy_"))
        copies_.add(range);
      outermost_.add(range);
    }
    for (const HostRange& range : trace_.annotations) {
      const std::string& name = trace_.name(range.name);
      if (name.starts_with("Optimizer.step#")) {
        update_.add(range);
        // "Optimizer.step#AdamW.step"
        const std::string kind = name.substr(name.find('#') + 1);
        job_.optimizer = kind.substr(0, kind.find('.'));
      } else if (name.starts_with("Optimizer.zero_grad#")) {
        zero_.add(range);
      }
    }
  }

  // The profiler's marks; else from the end of an update to the end of the next; else the whole trace.
  std::vector<Window> windows() const {
    std::vector<Window> out;
    for (const HostRange& range : trace_.annotations)
      if (is_named(range, "ProfilerStep#")) out.push_back({range.start, range.end(), range.thread, true});
    if (!out.empty()) return out;
    std::vector<const HostRange*> updates;
    for (const HostRange& range : trace_.annotations)
      if (is_named(range, "Optimizer.step#")) updates.push_back(&range);
    for (std::size_t i = 1; i < updates.size(); ++i)
      out.push_back({updates[i - 1]->end(), updates[i]->end(), updates[i]->thread, false});
    if (!out.empty() || trace_.calls.empty()) return out;
    double end = 0;
    for (const HostCall& call : trace_.calls) end = std::max(end, call.start + call.duration);
    return {{trace_.calls.front().start, end + 1, trace_.calls.front().thread, false}};
  }

  // In the stream with most of the time: a kernel that was launched long before the one before it ended
  // starts after the gap; one on an idle device after the latency.
  void find_queue_times() {
    std::map<std::uint64_t, double> busy;
    for (const DeviceActivity& each : trace_.device)
      if (each.collective < 0) busy[each.stream] += each.duration;
    if (busy.empty()) return;
    const auto most = std::max_element(busy.begin(), busy.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    std::map<std::int64_t, const HostCall*> launch;
    for (const HostCall& call : trace_.calls)
      if (call.correlation >= 0) launch.emplace(call.correlation, &call);
    std::vector<double> gaps, latencies;
    const DeviceActivity* before = nullptr;
    for (const DeviceActivity& each : trace_.device) {
      if (each.stream != most->first || each.collective >= 0) continue;
      const auto found = launch.find(each.correlation);
      if (before != nullptr && found != launch.end()) {
        const double gap = each.start - before->end(),
                     issued = found->second->start + found->second->duration;
        constexpr double queued_for = 10, longest_gap = 20;
        if (issued + queued_for < before->end() && gap >= 0 && gap < longest_gap) gaps.push_back(gap);
        if (found->second->start > before->end() && each.start > found->second->start)
          latencies.push_back(each.start - found->second->start);
      }
      before = &each;
    }
    constexpr std::size_t enough = 20;
    if (gaps.size() >= enough) job_.gap = median(std::move(gaps)) * from_microseconds;
    if (latencies.size() >= enough) job_.latency = median(std::move(latencies)) * from_microseconds;
  }

  struct Launch {
    double time = 0;
    std::uint64_t thread = 0;
    double device = 0;  // microseconds
    int kernels = 0;
  };

  TracedStep read_step(const Window& window) {
    TracedStep step;
    step.begin = window.begin;
    step.end = window.end;
    step.is_marked = window.is_marked;
    step.traced = (window.end - window.begin) * from_microseconds;
    std::vector<Launch> launches;
    const auto first = std::lower_bound(trace_.calls.begin(), trace_.calls.end(), window.begin,
                                        [](const HostCall& call, double t) { return call.start < t; });
    std::vector<const HostCall*> waits;
    for (auto call = first; call != trace_.calls.end() && call->start < window.end; ++call) {
      ++step.events;
      if (call->waits) waits.push_back(&*call);
      if (call->correlation < 0) continue;
      Launch launch{call->start, call->thread, 0, 0};
      const auto [begin, end] = activities_of(call->correlation);
      for (std::size_t i = begin; i < end; ++i) {
        const DeviceActivity& activity = trace_.device[by_correlation_[i].second];
        if (activity.collective >= 0) {
          step.exposed += overlap_.exposed(activity) * from_microseconds;
          continue;
        }
        launch.device += activity.duration;
        ++launch.kernels;
      }
      if (launch.kernels > 0) launches.push_back(launch);
    }
    group(launches, window, step);
    host_times(waits, window, step);
    find_gradients(window, step);
    for (auto range = std::lower_bound(trace_.operators.begin(), trace_.operators.end(), window.begin,
                                       [](const HostRange&r, double t) { return r.start < t; });
         range != trace_.operators.end() && range->start < window.end; ++range)
      ++step.events;
    return step;
  }

  void group(const std::vector<Launch>& launches, const Window& window, TracedStep& step) const {
    double backward_begin = window.end, backward_end = window.begin;
    for (const Launch& launch : launches) {
      if (!is_backward(launch, window)) continue;
      backward_begin = std::min(backward_begin, launch.time);
      backward_end = std::max(backward_end, launch.time);
    }
    const HostRange* last = nullptr;
    for (const Launch& launch : launches) {
      TracedItem item;
      const HostRange* around = nullptr;
      if (const HostRange* copy = copies_.around(launch.thread, launch.time)) {
        item.is_copy = true;
        item.phase = Phase::backward;
        around = copy;
      } else if (is_backward(launch, window)) {
        item.phase = Phase::backward;
        around = backward_.around(launch.thread, launch.time);
      } else if (zero_.around(launch.thread, launch.time) != nullptr && launch.time < backward_begin) {
        item.is_before = true;
      } else if (update_.around(launch.thread, launch.time) != nullptr || launch.time > backward_end) {
        item.phase = Phase::optimizer;
      }
      if (around == nullptr) around = outermost_.around(launch.thread, launch.time);
      item.name = around != nullptr ? short_name(trace_.name(around->name)) : "kernel";
      item.start = around != nullptr ? std::max(around->start, window.begin) : launch.time;
      item.launches = launch.kernels;
      item.device = launch.device * from_microseconds + launch.kernels * job_.gap;
      const bool joins = !step.items.empty() && step.items.back().phase == item.phase &&
                         step.items.back().is_before == item.is_before &&
                         step.items.back().is_copy == item.is_copy &&
                         ((around != nullptr && around == last) || item.phase == Phase::optimizer ||
                          item.is_before || item.is_copy);
      if (joins) {
        step.items.back().launches += item.launches;
        step.items.back().device += item.device;
      } else {
        step.items.push_back(item);
      }
      last = around;
      step.kernels += launch.kernels;
      step.device += item.device;
    }
  }

  bool is_backward(const Launch& launch, const Window& window) const {
    return backward_.around(launch.thread, launch.time) != nullptr ||
           (launch.thread != window.thread && backward_.has_thread(launch.thread));
  }

  // "autograd::engine::evaluate_function: ConvolutionBackward0" -> "ConvolutionBackward0"; "aten::conv2d" ->
  // "conv2d".
  static std::string short_name(const std::string& name) {
    for (const std::string_view beginning :
         {"autograd::engine::evaluate_function: ", "torch::autograd::", "aten::"})
      if (name.starts_with(beginning)) return name.substr(beginning.size());
    return name;
  }

  static void host_times(const std::vector<const HostCall*>& waits, const Window& window, TracedStep& step) {
    std::stable_sort(step.items.begin(), step.items.end(),
                     [](const TracedItem& a, const TracedItem& b) { return a.start < b.start; });
    auto wait = waits.begin();
    for (std::size_t i = 0; i < step.items.size(); ++i) {
      const double begin = i == 0 ? window.begin : step.items[i].start;
      const double end = i + 1 < step.items.size() ? step.items[i + 1].start : window.end;
      double waiting = 0;
      for (; wait != waits.end() && (*wait)->start < end; ++wait)
        waiting += std::min((*wait)->start + (*wait)->duration, window.end) - (*wait)->start;
      step.items[i].host = std::max(0.0, end - begin - waiting) * from_microseconds;
      step.host += step.items[i].host;
      step.waiting += waiting * from_microseconds;
    }
  }

  void find_gradients(const Window& window, TracedStep& step) const {
    std::vector<double> starts;  // of the items of the backward pass
    for (const TracedItem& item : step.items)
      if (item.phase == Phase::backward && !item.is_copy) starts.push_back(item.start);
    if (starts.empty()) return;
    const auto first = std::lower_bound(trace_.operators.begin(), trace_.operators.end(), window.begin,
                                        [](const HostRange& r, double t) { return r.start < t; });
    for (auto range = first; range != trace_.operators.end() && range->start < window.end; ++range) {
      if (range->shapes < 0 || trace_.name(range->name) != "torch::autograd::AccumulateGrad") continue;
      const TraceShapes& shapes = trace_.shapes[static_cast<std::size_t>(range->shapes)];
      if (shapes.ranks[0] < 0) continue;
      TracedGradient gradient;
      gradient.elements = 1;
      constexpr std::int64_t most = std::int64_t{1} << 40;
      for (int d = 0; d < shapes.ranks[0]; ++d) {
        const std::int64_t size = shapes.dimensions[0][static_cast<std::size_t>(d)];
        if (size < 1 || size > most || gradient.elements > most / size) gradient.elements = 0;
        gradient.elements *= size;
        gradient.shape.push_back(size);
      }
      if (gradient.elements < 1) continue;
      const auto after = std::upper_bound(starts.begin(), starts.end(), range->start);
      gradient.ready = static_cast<int>(std::max<std::ptrdiff_t>(1, after - starts.begin())) - 1;
      step.gradients.push_back(std::move(gradient));
    }
    find_batch(window);
  }

  // The first dimension of what the first convolution, table or product reads.
  void find_batch(const Window& window) const {
    if (job_.batch) return;
    const auto first = std::lower_bound(trace_.operators.begin(), trace_.operators.end(), window.begin,
                                        [](const HostRange& r, double t) { return r.start < t; });
    for (auto range = first; range != trace_.operators.end() && range->start < window.end; ++range) {
      if (range->shapes < 0) continue;
      const std::string& name = trace_.name(range->name);
      const TraceShapes& shapes = trace_.shapes[static_cast<std::size_t>(range->shapes)];
      const std::size_t which = name.starts_with("aten::embedding") ? 1 : 0;
      const bool reads_samples = name.starts_with("aten::conv") || name.starts_with("aten::embedding") ||
                                 name.starts_with("aten::linear");
      if (!reads_samples || shapes.ranks[which] < 1 || (which == 1 && shapes.ranks[1] < 2)) continue;
      if (shapes.dimensions[which][0] > 0) {
        job_.batch = shapes.dimensions[which][0];
        return;
      }
    }
  }

  // Between the start of an operator and that of the first one it calls lies little but the profiler's own
  // work at a start; at the end it works as long.
  void find_profiler_cost() {
    std::vector<double> offsets;
    std::map<std::uint64_t, const HostRange*> last;
    for (const HostRange& range : trace_.operators) {
      const HostRange*& before = last[range.thread];
      if (before != nullptr && range.start < before->end() && range.start >= before->start)
        offsets.push_back(range.start - before->start);
      before = &range;
    }
    constexpr std::size_t enough = 20;
    if (offsets.size() >= enough) job_.profiler = 2 * median(std::move(offsets)) * from_microseconds;
  }

  const TraceCollection& trace_;
  std::string file_;
  mutable TracedJob job_;
  std::vector<std::pair<std::int64_t, std::size_t>> by_correlation_;
  Ranges backward_, outermost_, update_, zero_, copies_;
  TraceOverlap overlap_;
};

}  // namespace

TracedJob traced_steps(const TraceCollection& trace, const std::string& file) {
  return Analysis(trace, file).run();
}

}  // namespace foretrain
