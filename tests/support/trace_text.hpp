// A trace in the shape of PyTorch's profiler, of a job small enough to know what is in it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace foretrain::test {

// Two steps of 10 ms. Forward: conv2d (two kernels of 1 ms) and linear (1 ms); backward: two nodes of 2 ms,
// each followed by its gradient; update of 0.5 ms. The host launches every millisecond or so. A rank of
// several has DDP's besides: each gradient (of 10 us) into the one bucket, an all-reduce of 1,184 bytes, 0.3
// ms in the first step and 0.5 ms in the second, where it waits, and the gradients back (10 us each).
class TraceText {
 public:
  explicit TraceText(int ranks = 1, int gpus = 1) : ranks_(ranks), gpus_(gpus) {
    for (int step = 0; step < 2; ++step) add_step(1e6 + 10'000.0 * step, step);
  }

  std::string text() const {
    std::string out = "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [";
    for (int gpu = 0; gpu < gpus_; ++gpu)
      out += fmt::format("{}{{\"id\": {}, \"name\": \"NVIDIA Test\", \"totalGlobalMem\": 80000000000}}",
                         gpu > 0 ? ", " : "", gpu);
    out += fmt::format(
        "],\n  \"record_shapes\": 1,\n  \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": 0, "
        "\"world_size\": {}}},\n  \"traceEvents\": [\n",
        ranks_);
    for (std::size_t i = 0; i < events_.size(); ++i)
      out += "  {\n    " + events_[i] + (i + 1 < events_.size() ? "\n  },\n" : "\n  }\n");
    return out + "  ],\n  \"traceName\": \"t.json\"\n}\n";
  }
  std::vector<std::string>& events() { return events_; }

 private:
  void add_step(double at, int step) {
    const int base = 100 * step;
    annotation(fmt::format("ProfilerStep#{}", step + 3), at, 10'000);
    op("aten::conv2d", 1, at + 100, 900, "[[16, 3, 32, 32], [8, 3, 3, 3], []]");
    op("aten::convolution", 1, at + 104, 800, "[[16, 3, 32, 32], [8, 3, 3, 3], []]");
    launch(1, at + 200, base + 1);
    launch(1, at + 400, base + 2);
    op("aten::linear", 1, at + 1'100, 900, "[[16, 8], [10, 8]]");
    launch(1, at + 1'200, base + 3);
    op("autograd::engine::evaluate_function: AddmmBackward0", 2, at + 2'100, 900, "[]");
    launch(2, at + 2'200, base + 4);
    op("torch::autograd::AccumulateGrad", 2, at + 3'050, 20, "[[10, 8]]");
    if (ranks_ > 1) into_bucket(at + 3'071, base + 11);
    op("autograd::engine::evaluate_function: ConvolutionBackward0", 2, at + 3'100, 900, "[]");
    launch(2, at + 3'200, base + 5);
    op("torch::autograd::AccumulateGrad", 2, at + 4'050, 20, "[[8, 3, 3, 3]]");
    if (ranks_ > 1) {
      into_bucket(at + 4'071, base + 12);
      op("c10d::allreduce_", 2, at + 4'100, 100, "[[]]");
      annotation("nccl:all_reduce", at + 4'110, 80);
      launch(2, at + 4'120, base + 13);
      for (int gradient = 0; gradient < 2; ++gradient) {
        op("torch.distributed.ddp.reducer::copy_bucket_to_grad", 2, at + 4'300 + 50 * gradient, 40, "[]");
        launch(2, at + 4'310 + 50 * gradient, base + 14 + gradient);
      }
    }
    annotation("Optimizer.step#SGD.step", at + 5'000, 1'000);
    launch(1, at + 5'200, base + 6);
    double start = at + 210;
    const auto run = [&](double duration, int correlation) {
      kernel(start, duration, base + correlation);
      start += duration + 1;
    };
    for (const int forward : {1, 2, 3}) run(1'000, forward);
    run(2'000, 4);
    if (ranks_ > 1) run(10, 11);
    run(2'000, 5);
    if (ranks_ > 1) {
      run(10, 12);
      const double reduced = step == 0 ? 300 : 500;
      collective(start, reduced, base + 13);
      start += reduced + 1;
      run(10, 14);
      run(10, 15);
    }
    run(500, 6);
  }
  void into_bucket(double at, int correlation) {
    op("torch::distributed::reducer::mul_out", 2, at, 18, "[[], []]");
    launch(2, at + 5, correlation);
  }
  void annotation(const std::string& name, double at, double duration) {
    events_.push_back(fmt::format(
        R"("ph": "X", "cat": "user_annotation", "name": "{}", "pid": 7, "tid": 1, "ts": {:.3f}, "dur": {:.3f})",
        name, at, duration));
  }
  void op(const char* name, int thread, double at, double duration, const char* dims) {
    events_.push_back(
        fmt::format("\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"{}\", \"pid\": 7, \"tid\": {},\n    "
                    "\"ts\": {:.3f}, \"dur\": {:.3f},\n    \"args\": {{\n      "
                    "\"External id\": 1,\"Input Dims\": {}\n    }}",
                    name, thread, at, duration, dims));
  }
  void launch(int thread, double at, int correlation) {
    events_.push_back(fmt::format(
        R"("ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": {}, "ts": {:.3f}, "dur": 5, "args": {{"cbid": 211, "correlation": {}}})",
        thread, at, correlation));
  }
  void kernel(double at, double duration, int correlation) {
    events_.push_back(fmt::format(
        R"("ph": "X", "cat": "kernel", "name": "sm90_gemm_bf16_{}", "pid": 0, "tid": 7, "ts": {:.3f}, "dur": {:.3f}, "args": {{"device": 0, "stream": 7, "correlation": {}}})",
        correlation % 100, at, duration, correlation));
  }
  void collective(double at, double duration, int correlation) {
    events_.push_back(fmt::format(
        R"event("ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 19, "ts": {:.3f}, "dur": {:.3f}, "args": {{"device": 0, "stream": 19, "correlation": {}, "Collective name": "allreduce", "In msg nelems": 296, "Out msg nelems": 296, "Group size": {}, "dtype": "Float", "In split size": "[]", "Process Group Name": "0", "Process Group Description": "default_pg"}})event",
        at, duration, correlation, ranks_));
  }
  int ranks_, gpus_;
  std::vector<std::string> events_;
};

}  // namespace foretrain::test
