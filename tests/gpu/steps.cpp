#include "tests/gpu/steps.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "device/registry.hpp"
#include "sim/base/error.hpp"
#include "tests/support/models.hpp"

namespace foretrain::test {
namespace {

using namespace device;

Model model_named(const std::string& name) {
  if (name == "resnet50") return resnet50();
  if (name == "resnet18") return resnet18();
  if (name == "vgg16") return vgg16();
  if (name == "wrn-16-4") return wide_resnet(16, 4);
  if (name == "wrn-28-10") return wide_resnet(28, 10);
  throw Error(ErrorKind::input, "no model \"" + name + "\"");
}

Precision precision_named(const std::string& name) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    if (name == name_of(precision)) return precision;
  }
  throw Error(ErrorKind::input, "no precision \"" + name + "\"");
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void issue_step(Program& program) {
  program.prepare_weights();
  program.zero_gradients();
  for (const WorkItem& item : program.forward_items()) program.issue(item);
  for (const WorkItem& item : program.backward_items()) program.issue(item);
  program.update();
}

// Milliseconds of each kind of layer and pass, with an event after every item.
void print_parts(Worker& worker, Program& program, const Model& model) {
  static const char* const pass_names[] = {"forward", "backward_data", "backward_weights"};
  std::vector<WorkItem> items(program.forward_items().begin(), program.forward_items().end());
  items.insert(items.end(), program.backward_items().begin(), program.backward_items().end());
  std::vector<Event> events;
  for (std::size_t i = 0; i < items.size() + 2; ++i) events.push_back(worker.make_event());
  constexpr int repetitions = 5;
  std::vector<std::vector<double>> times(items.size() + 1);
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    worker.close_gate(StreamKind::compute);
    worker.record(events[0], StreamKind::compute);
    for (std::size_t i = 0; i < items.size(); ++i) {
      program.issue(items[i]);
      worker.record(events[i + 1], StreamKind::compute);
    }
    program.update();
    worker.record(events.back(), StreamKind::compute);
    worker.open_gate();
    worker.synchronize();
    for (std::size_t i = 0; i <= items.size(); ++i) {
      times[i].push_back(worker.seconds_between(events[i], events[i + 1]));
    }
  }
  std::map<std::string, double> parts;
  double sum = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Layer& layer = model.layers[static_cast<std::size_t>(items[i].layer)];
    const double t = median(times[i]);
    parts[std::string(name_of(layer.kind)) + " " + pass_names[static_cast<int>(items[i].pass)]] += t;
    sum += t;
    std::printf("    item %-28s %-16s %8.4f ms %2d  %s\n", layer.name.c_str(),
                pass_names[static_cast<int>(items[i].pass)], t * 1e3, program.launches(items[i]),
                operator_key(model, layer).c_str());
  }
  parts["update"] = median(times.back());
  sum += parts["update"];
  for (const auto& [name, seconds] : parts)
    std::printf("  part %-34s %8.4f ms\n", name.c_str(), seconds * 1e3);
  std::printf("  part %-34s %8.4f ms\n", "sum", sum * 1e3);
}

void time_one(Worker& worker, const std::string& name, std::int64_t batch, const std::string& precision,
              bool parts, int candidates) {
  const Model model = model_named(name);
  BuildOptions options;
  options.batch = batch;
  options.precision = precision_named(precision);
  options.optimizer = model.optimizer;
  options.optimizer.learning_rate = 1e-4;
  options.plan_candidates = candidates;
  const double began = now();
  const auto program = worker.build(model, options);
  const double built = now() - began;
  worker.reset_peak();
  for (int i = 0; i < 10; ++i) issue_step(*program);
  constexpr int steps = 30;
  std::vector<Event> events;
  for (int i = 0; i <= steps; ++i) events.push_back(worker.make_event());
  worker.synchronize();
  worker.record(events[0], StreamKind::compute);
  for (int i = 0; i < steps; ++i) {
    issue_step(*program);
    worker.record(events[static_cast<std::size_t>(i) + 1], StreamKind::compute);
  }
  worker.synchronize();
  std::vector<double> device;
  for (std::size_t i = 0; i < steps; ++i) device.push_back(worker.seconds_between(events[i], events[i + 1]));
  std::vector<double> host;
  for (int i = 0; i < 7; ++i) {
    const double from = now();
    issue_step(*program);
    host.push_back(now() - from);
    worker.synchronize();
  }
  int launches = program->update_launches();
  for (const WorkItem& item : program->forward_items()) launches += program->launches(item);
  for (const WorkItem& item : program->backward_items()) launches += program->launches(item);
  std::printf(
      "step %-10s %-5s batch %4lld  median %8.3f ms  min %8.3f  host %6.3f ms  launches %4d  build %5.2f s  "
      "search %5.2f s  peak %7.0f MiB  loss %.4f\n",
      name.c_str(), precision.c_str(), static_cast<long long>(batch), median(device) * 1e3,
      *std::min_element(device.begin(), device.end()) * 1e3, median(host) * 1e3, launches, built,
      program->report().plan_search_seconds, static_cast<double>(worker.peak_bytes()) / 1048576,
      program->loss());
  if (parts) print_parts(worker, *program, model);
  std::fflush(stdout);
}

}  // namespace

int time_steps(const std::vector<std::string>& arguments) {
  const auto worker = open_backend("cuda").make_worker(0);
  bool parts = false;
  int candidates = BuildOptions{}.plan_candidates;
  for (const std::string& argument : arguments) {
    if (argument == "--parts" || argument == "--no-parts") {
      parts = argument == "--parts";
      continue;
    }
    if (argument.starts_with("--candidates=")) {
      candidates = std::stoi(argument.substr(13));
      continue;
    }
    const std::size_t first = argument.find(':'), second = argument.find(':', first + 1);
    if (first == std::string::npos) throw Error(ErrorKind::input, "MODEL:BATCH[:PRECISION], not " + argument);
    try {
      time_one(*worker, argument.substr(0, first), std::stoll(argument.substr(first + 1, second - first - 1)),
               second == std::string::npos ? "bf16" : argument.substr(second + 1), parts, candidates);
    } catch (const Error& error) {
      std::printf("step %s failed: %s\n", argument.c_str(), error.what());
    }
  }
  return 0;
}

}  // namespace foretrain::test
