#include "sim/output/kineto_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "sim/output/slice_order.hpp"

namespace foretrain {
namespace {

constexpr int process = 1000, main_thread = 1000, autograd_thread = 1001;

int stream_of(Track track) {
  return track == Track::communication ? 20 : track == Track::copy ? 13 : 7;
}

std::string microseconds(Time t) {
  return fmt::format("{}.{:03}", t.count() / 1'000'000, t.count() / 1000 % 1000);
}

// NCCL's kernel of a collective that the simulator names "all_reduce bucket 0".
std::string kernel_name(const Slice& slice) {
  if (slice.track != Track::communication) return slice.name;
  const std::string kind = slice.name.substr(0, slice.name.find(' '));
  static const std::map<std::string, std::string> names = {{"all_reduce", "AllReduce_Sum_f32"},
                                                           {"reduce_scatter", "ReduceScatter_Sum_f32"},
                                                           {"all_gather", "AllGather"},
                                                           {"broadcast", "Broadcast"},
                                                           {"reduce", "Reduce_Sum_f32"},
                                                           {"all_to_all", "SendRecv"},
                                                           {"send_recv", "SendRecv"}};
  const auto found = names.find(kind);
  return found == names.end() ? slice.name : "ncclDevKernel_" + found->second + "_RING";
}

class Writer {
 public:
  Writer(const Timeline& timeline, const Result& result, const TextSink& sink)
      : timeline_(timeline), result_(result), sink_(sink) {}

  void write() {
    sink_(
        fmt::format("{{\n\"schemaVersion\": 1,\n\"deviceProperties\": [{{\"id\": 0, \"name\": "
                    "{}}}],\n\"distributedInfo\": {{\"backend\": "
                    "\"nccl\", \"rank\": 0, \"world_size\": {}}},\n\"displayTimeUnit\": "
                    "\"ms\",\n\"traceName\": {},\n\"traceEvents\": [",
                    json_string("simulated by foretrain " FORETRAIN_VERSION), result_.workers,
                    json_string(timeline_.title)));
    collect();
    // The host is through with a step before its kernels are.
    Time end;
    for (const std::size_t i : order_) {
      const Slice& slice = timeline_.slices[i];
      if (slice.track == Track::host && slice.start + slice.duration > end)
        end = slice.start + slice.duration;
    }
    annotation("ProfilerStep#1", Time(), end);
    write_slices();
    sink_("\n]\n}\n");
  }

 private:
  void collect() {
    const int first = timeline_.slices.empty()
                          ? 0
                          : std::min_element(timeline_.slices.begin(), timeline_.slices.end(),
                                             [](const Slice& a, const Slice& b) { return a.rank < b.rank; })
                                ->rank;
    for (const std::size_t i : slice_order(timeline_))
      if (timeline_.slices[i].rank == first && timeline_.slices[i].category != "waiting") order_.push_back(i);
    std::map<std::string, std::vector<std::size_t>> launches, works;
    for (const std::size_t i : order_) {
      const Slice& slice = timeline_.slices[i];
      (slice.track == Track::host ? launches : works)[slice.name].push_back(i);
    }
    int id = 0;
    for (const auto& [name, from] : launches) {
      std::vector<std::size_t>& to = works[name];
      std::stable_sort(to.begin(), to.end(), [&](std::size_t a, std::size_t b) {
        return timeline_.slices[a].start < timeline_.slices[b].start;
      });
      for (std::size_t n = 0; n < std::min(from.size(), to.size()); ++n) {
        correlation_[from[n]] = correlation_[to[n]] = ++id;
        launched_[from[n]] = to[n];
      }
    }
  }

  void event(const std::string& members) {
    sink_(is_first_ ? "\n{" : ",\n{");
    is_first_ = false;
    sink_(members);
    sink_("}");
  }

  void annotation(const std::string& name, Time start, Time duration,
                  const char* category = "user_annotation", int thread = main_thread) {
    event(fmt::format(
        R"("ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{}})",
        category, json_string(name), process, thread, microseconds(start), microseconds(duration)));
  }

  void write_slices() {
    for (const std::size_t i : order_) {
      const Slice& slice = timeline_.slices[i];
      if (slice.track == Track::host) {
        const auto work = launched_.find(i);
        const std::string phase = work == launched_.end() ? "" : timeline_.slices[work->second].category;
        const int thread = phase == "backward" ? autograd_thread : main_thread;
        if (phase == "backward")
          annotation("autograd::engine::evaluate_function: " + slice.name, slice.start, slice.duration,
                     "cpu_op", thread);
        if (phase == "forward") annotation(slice.name, slice.start, slice.duration, "cpu_op", thread);
        if (phase == "optimizer")
          annotation(fmt::format("Optimizer.step#{}.step", "SGD"), slice.start, slice.duration);
        if (work == launched_.end()) continue;
        event(fmt::format(
            R"("ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{"cbid": 211, "correlation": {}}})",
            process, thread, microseconds(slice.start), microseconds(slice.duration), correlation_[i]));
        continue;
      }
      const auto correlation = correlation_.find(i);
      std::string arguments = fmt::format("\"device\": 0, \"stream\": {}", stream_of(slice.track));
      if (correlation != correlation_.end())
        arguments += fmt::format(", \"correlation\": {}", correlation->second);
      if (slice.track == Track::communication) arguments += collective_arguments(slice);
      event(fmt::format(
          R"("ph": "X", "cat": "kernel", "name": {}, "pid": 0, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}})",
          json_string(kernel_name(slice)), stream_of(slice.track), microseconds(slice.start),
          microseconds(slice.duration), arguments));
    }
  }

  std::string collective_arguments(const Slice& slice) const {
    std::string kind = slice.name.substr(0, slice.name.find(' ')), out;
    std::erase(kind, '_');
    for (const auto& [name, value] : slice.arguments) {
      if (name != "bytes") continue;
      const double elements = std::strtod(value.c_str(), nullptr) / 4;
      out = fmt::format(
          R"(, "Collective name": "{}", "In msg nelems": {:.0f}, "Out msg nelems": {:.0f}, "Group size": {}, "dtype": "Float")",
          kind, elements, elements, result_.workers);
    }
    return out;
  }

  const Timeline& timeline_;
  const Result& result_;
  const TextSink& sink_;
  bool is_first_ = true;
  std::vector<std::size_t> order_;
  std::map<std::size_t, int> correlation_;
  std::map<std::size_t, std::size_t> launched_;
};

}  // namespace

void write_kineto_trace(const Timeline& timeline, const Result& result, const TextSink& sink) {
  Writer(timeline, result, sink).write();
}

}  // namespace foretrain
