#include "execute/item_times.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "sim/base/quantile.hpp"

namespace foretrain {
namespace {

constexpr int passes = 5;  // the first is not counted

using device::StreamKind;

void await(device::Worker& worker, device::Event event, const std::function<void()>& interrupted) {
  while (!worker.reached(event)) {
    interrupted();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

std::vector<double> measure_item_ends(device::Worker& worker, device::Program& program, Exchange& exchange,
                                      const std::function<void()>& interrupted) {
  const auto items = program.backward_items();
  const device::Event begin = worker.make_event();
  std::vector<device::Event> ends;
  for (std::size_t i = 0; i < items.size(); ++i) ends.push_back(worker.make_event());
  std::vector<std::vector<double>> seen(items.size());
  program.prepare_weights();
  for (int pass = 0; pass < passes; ++pass) {
    program.zero_gradients();
    for (const device::WorkItem& item : program.forward_items()) program.issue(item);
    worker.record(begin, StreamKind::compute);
    for (std::size_t i = 0; i < items.size(); ++i) {
      program.issue(items[i]);
      worker.record(ends[i], StreamKind::compute);
    }
    if (!ends.empty()) await(worker, ends.back(), interrupted);
    for (std::size_t i = 0; pass > 0 && i < items.size(); ++i)
      seen[i].push_back(worker.seconds_between(begin, ends[i]));
  }
  std::vector<double> own;
  for (const std::vector<double>& values : seen) own.push_back(median(values));
  std::vector<double> slowest(own.size());
  for (const std::vector<std::byte>& bytes : exchange.all_gather(std::as_bytes(std::span(own)))) {
    std::vector<double> theirs(bytes.size() / sizeof(double));
    std::memcpy(theirs.data(), bytes.data(), theirs.size() * sizeof(double));
    for (std::size_t i = 0; i < std::min(own.size(), theirs.size()); ++i)
      slowest[i] = std::max(slowest[i], theirs[i]);
  }
  // Medians of different ranks and passes need not rise by themselves.
  for (std::size_t i = 1; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], slowest[i - 1]);
  return slowest;
}

}  // namespace foretrain
