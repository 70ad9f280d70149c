#include "sim/import/trace_collection.hpp"

#include <algorithm>

#include "sim/import/lines.hpp"

namespace foretrain {
namespace {

// A kernel of 1,000 s, or one before time began, is none.
constexpr double longest = 1e9;

double element_bytes_of(std::string_view type) {
  if (type == "Half" || type == "BFloat16" || type == "c10::Half" || type == "c10::BFloat16" ||
      type == "Short")
    return 2;
  if (type == "Double" || type == "Long" || type == "double") return 8;
  if (type == "Char" || type == "Byte" || type == "Bool") return 1;
  return 4;
}

std::string element_name(std::string_view type) {
  if (type.find("BFloat16") != std::string_view::npos) return "bf16";
  if (type.find("Half") != std::string_view::npos) return "fp16";
  return "fp32";
}

// "allreduce", "_allgather_base", "reduce_scatter_tensor_coalesced", or the name of NCCL's kernel.
std::string collective_name(std::string_view text) {
  const std::string name = lower_case(text);
  const auto holds = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (holds("allreduce") || holds("all_reduce")) return "all_reduce";
  if (holds("reducescatter") || holds("reduce_scatter")) return "reduce_scatter";
  if (holds("allgather") || holds("all_gather")) return "all_gather";
  if (holds("alltoall") || holds("all_to_all")) return "all_to_all";
  if (holds("broadcast")) return "broadcast";
  if (holds("sendrecv") || holds("send") || holds("recv")) return "send_recv";
  if (holds("reduce")) return "reduce";
  return "";
}

// Operators whose shapes say how large a gradient or a batch is.
bool tells_a_size(std::string_view name) {
  static constexpr std::string_view beginnings[] = {"aten::conv", "aten::embedding", "aten::linear",
                                                    "aten::addmm", "aten::matmul"};
  return name.find("AccumulateGrad") != std::string_view::npos ||
         std::any_of(std::begin(beginnings), std::end(beginnings),
                     [&](std::string_view each) { return name.starts_with(each); });
}

}  // namespace

int TraceCollection::name_index(std::string_view name) {
  const auto [found, is_new] = index_.try_emplace(std::string(name), static_cast<int>(names_.size()));
  if (is_new) names_.emplace_back(name);
  return found->second;
}

void TraceCollection::take(const TraceEvent& event) {
  if (event.phase != "X") return;
  const std::string_view category = event.category;
  const bool is_kernel = category == "kernel" || category == "Kernel";
  const bool is_copy =
      category == "gpu_memcpy" || category == "gpu_memset" || category == "Memcpy" || category == "Memset";
  const bool is_call = category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime" ||
                       category == "hip_runtime";
  const bool is_operator = category == "cpu_op" || category == "Operator" || category == "cpu_instant_event";
  const bool is_annotation = category == "user_annotation";
  if (!is_kernel && !is_copy && !is_call && !is_operator && !is_annotation) return;
  if (!event.has_start || !event.has_duration || event.start < 0) {
    ++without_time;
    return;
  }
  if (event.duration < 0) {
    ++negative;
    return;
  }
  if (!(event.duration < longest)) {  // not a number, too
    ++huge;
    return;
  }
  host_events += is_call || is_operator || is_annotation;
  if (is_kernel || is_copy) {
    DeviceActivity activity{
        event.start, event.duration, event.correlation, 0, name_index(event.name), is_kernel,
        -1,          event.bytes};
    const auto index_of_device = static_cast<std::uint64_t>(
        event.device >= 0 ? event.device : static_cast<std::int64_t>(event.process & 0xFFFF));
    activity.stream =
        index_of_device << 32 |
        static_cast<std::uint64_t>(event.stream >= 0 ? event.stream
                                                     : static_cast<std::int64_t>(event.thread & 0xFFFFFF));
    const bool is_nccl = is_kernel && (event.name.starts_with("nccl") ||
                                       event.name.find("ncclDevKernel") != std::string_view::npos ||
                                       event.name.find("ncclKernel") != std::string_view::npos);
    if (is_nccl) {
      TraceCollective collective;
      collective.kind = collective_name(event.collective.empty() ? event.name : event.collective);
      collective.element = element_name(event.element);
      collective.bytes = event.elements * element_bytes_of(event.element);
      constexpr double most_ranks = 1e6;
      collective.ranks =
          event.group_size > 0 && event.group_size < most_ranks ? static_cast<int>(event.group_size) : 0;
      activity.collective = static_cast<int>(collectives.size());
      collectives.push_back(std::move(collective));
    }
    without_correlation += event.correlation < 0;
    device.push_back(activity);
    return;
  }
  if (is_call) {
    const bool waits = event.name.find("Synchronize") != std::string_view::npos;
    if (event.correlation >= 0 || waits)
      calls.push_back({event.start, event.duration, event.correlation, event.thread, waits});
    return;
  }
  HostRange range{event.start, event.duration, event.thread, name_index(event.name), -1};
  if (event.shape_count > 0 && (event.ranks[0] >= 0 || event.ranks[1] >= 0) && tells_a_size(event.name)) {
    range.shapes = static_cast<int>(shapes.size());
    shapes.push_back({event.shapes, event.ranks});
  }
  (is_annotation ? annotations : operators).push_back(range);
}

void TraceCollection::sort() {
  const auto by_start = [](const auto& a, const auto& b) { return a.start < b.start; };
  std::stable_sort(device.begin(), device.end(), by_start);
  std::stable_sort(calls.begin(), calls.end(), by_start);
  // A range that holds others comes before them.
  const auto outer_first = [](const HostRange& a, const HostRange& b) {
    return a.start != b.start ? a.start < b.start : a.duration > b.duration;
  };
  std::stable_sort(operators.begin(), operators.end(), outer_first);
  std::stable_sort(annotations.begin(), annotations.end(), outer_first);
}

}  // namespace foretrain
