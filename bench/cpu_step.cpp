// Whole training steps of a shipped model on the cpu backend, to be held against another program in the same
// go (bench/cpu_against_torch.py).
//
// usage: cpu_step MODEL BATCH THREADS SECONDS [parts]
// Prints {"step_s", "median_s", "processor_s", "steps"}: the shortest step, the median, and the process's
// processor time a step; with `parts` the time of each kind of layer and pass as well, on standard error.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>

#include "device/registry.hpp"
#include "sim/base/error.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"
#include "sim/input/model_reader.hpp"

using namespace foretrain;
using device::StreamKind;

namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void issue_step(device::Program& program) {
  program.prepare_weights();
  program.zero_gradients();
  for (const device::WorkItem& item : program.forward_items()) program.issue(item);
  for (const device::WorkItem& item : program.backward_items()) program.issue(item);
  program.update();
}

void print_parts(device::Worker& worker, device::Program& program, const Model& model) {
  static const char* const passes[] = {"forward", "backward_data", "backward_weights"};
  std::map<std::string, double> sums;
  const auto timed = [&](const std::string& name, const std::function<void()>& work) {
    worker.synchronize();
    const double start = seconds_of(CLOCK_MONOTONIC);
    work();
    worker.synchronize();
    sums[name] += seconds_of(CLOCK_MONOTONIC) - start;
  };
  constexpr int repeats = 3;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    timed("prepare_weights", [&] { program.prepare_weights(); });
    for (const auto items : {program.forward_items(), program.backward_items()})
      for (const device::WorkItem& item : items)
        timed(std::string(name_of(model.layers[static_cast<std::size_t>(item.layer)].kind)) + " " +
                  passes[static_cast<int>(item.pass)],
              [&] { program.issue(item); });
    timed("update", [&] { program.update(); });
  }
  for (const auto& [name, seconds] : sums)
    std::fprintf(stderr, "%-40s %9.3f ms\n", name.c_str(), 1e3 * seconds / repeats);
}

std::shared_ptr<const Model> load(const std::string& name) {
  Diagnostics diagnostics;
  const Catalog catalog({FORETRAIN_SOURCE_DIR});
  const auto path = catalog.resolve(DataKind::model, name, {}, diagnostics);
  diagnostics.throw_errors();
  const auto root = read_document(*path, diagnostics);
  const auto model = root ? read_model(*root, diagnostics) : nullptr;
  diagnostics.throw_errors();
  return model;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: cpu_step MODEL BATCH THREADS SECONDS [parts]\n");
    return 2;
  }
  try {
    ::setenv("FORETRAIN_THREADS", argv[3], 1);
    const auto model = load(argv[1]);
    const auto worker = device::open_backend("cpu").make_worker(0);
    device::BuildOptions options;
    options.batch = std::atoi(argv[2]);
    options.optimizer = model->optimizer;
    const auto program = worker->build(*model, options);
    program->synthesize_input(1);
    for (int i = 0; i < 2; ++i) issue_step(*program);
    worker->synchronize();
    std::vector<double> times;
    const double start = seconds_of(CLOCK_MONOTONIC), work = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    do {
      const double before = seconds_of(CLOCK_MONOTONIC);
      issue_step(*program);
      worker->synchronize();
      times.push_back(seconds_of(CLOCK_MONOTONIC) - before);
    } while (times.size() < 3 || seconds_of(CLOCK_MONOTONIC) - start < std::atof(argv[4]));
    const double processor =
        (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - work) / static_cast<double>(times.size());
    std::sort(times.begin(), times.end());
    std::printf("{\"step_s\": %.6f, \"median_s\": %.6f, \"processor_s\": %.6f, \"steps\": %zu}\n",
                times.front(), times[times.size() / 2], processor, times.size());
    if (argc > 5) print_parts(*worker, *program, *model);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cpu_step: %s\n", error.what());
    return 1;
  }
}
