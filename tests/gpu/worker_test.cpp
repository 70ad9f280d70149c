// Streams, events, gates, copies and collectives of the cuda backend.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "device/registry.hpp"
#include "sim/base/error.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::device;
using foretrain::test::approx;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

TEST_CASE("the machine names its GPU and its libraries") {
  Backend& backend = open_backend("cuda");
  const Machine machine = backend.machine();
  CHECK(machine.gpus >= 1);
  CHECK(machine.gpu != "");
  CHECK(machine.memory_bytes > 1e9);
  CHECK(machine.driver != "");
  CHECK(machine.cudnn.starts_with("9."));
  CHECK(machine.nccl.starts_with("2."));
  const Clocks clocks = backend.clocks(0);
  CHECK(clocks.sm_max_hz > 1e8);
  CHECK(clocks.sm_hz <= clocks.sm_max_hz);
  std::printf(
      "machine: %d x %s, driver %s, CUDA %s, cuDNN %s, cuBLAS %s, NCCL %s, %s, %d cores, virtual %d, link "
      "%s, "
      "%.0f of %.0f MHz, %.0f C, %.0f W, %s\n",
      machine.gpus, machine.gpu.c_str(), machine.driver.c_str(), machine.cuda_runtime.c_str(),
      machine.cudnn.c_str(), machine.cublas.c_str(), machine.nccl.c_str(), machine.processor.c_str(),
      machine.cores, machine.virtual_machine, machine.link.c_str(), clocks.sm_hz / 1e6,
      clocks.sm_max_hz / 1e6, clocks.temperature, clocks.power_watts,
      clocks.throttle_reason.empty() ? "not throttled" : clocks.throttle_reason.c_str());
}

TEST_CASE("a gate holds a stream until it is opened, and no longer than a second") {
  const auto worker = open_backend("cuda").make_worker(0);
  const Event before = worker->make_event(), after = worker->make_event();
  worker->empty_kernel(StreamKind::compute);
  worker->synchronize();
  worker->close_gate(StreamKind::compute);
  worker->record(before, StreamKind::compute);
  worker->spin_kernel(StreamKind::compute, 1e-3);
  worker->record(after, StreamKind::compute);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!worker->reached(before));
  worker->open_gate();
  worker->synchronize();
  CHECK(worker->reached(after));
  CHECK(worker->seconds_between(before, after) > 0.9e-3);
  CHECK(worker->seconds_between(before, after) < 3e-3);

  const double start = now();
  worker->close_gate(StreamKind::communication);
  worker->synchronize(StreamKind::communication);
  CHECK(now() - start > 0.9);
  CHECK(now() - start < 2);
}

TEST_CASE("streams wait for each other's events") {
  const auto worker = open_backend("cuda").make_worker(0);
  const Event ready = worker->make_event(), done = worker->make_event();
  worker->spin_kernel(StreamKind::compute, 2e-3);
  worker->record(ready, StreamKind::compute);
  worker->wait(StreamKind::communication, ready);
  worker->empty_kernel(StreamKind::communication);
  worker->record(done, StreamKind::communication);
  worker->synchronize();
  CHECK(worker->seconds_between(ready, done) >= 0);
}

TEST_CASE("copies run in each direction, allocations are counted") {
  const auto worker = open_backend("cuda").make_worker(0);
  for (const char* direction : {"host_to_device", "device_to_host", "device_to_device"}) {
    worker->copy(direction, 1 << 20, true, -1);
    worker->copy(direction, 4 << 20, false, -1);
  }
  worker->synchronize();
  CHECK_THROWS_AS(worker->copy("sideways", 1, true, -1), Error);
  worker->reset_peak();
  const std::int64_t before = worker->peak_bytes();
  const Buffer buffer = worker->allocate(64 << 20);
  CHECK(worker->peak_bytes() >= before + (64 << 20));
  worker->release(buffer);
  worker->reset_peak();
  CHECK(worker->peak_bytes() < before + (64 << 20));
  CHECK_THROWS_WITH_AS(worker->allocate(std::int64_t{1} << 50), doctest::Contains("out of memory"), Error);
}

TEST_CASE("every rank gets the same weights from data-parallel steps, those of the joined batch") {
  Backend& backend = open_backend("cuda");
  const int ranks = std::min(backend.device_count(), 2);
  const Model model = test::tiny_mlp();
  BuildOptions options;
  options.batch = 4;
  options.optimizer = model.optimizer;
  options.optimizer.learning_rate = 0.1;
  const auto features = static_cast<std::size_t>(element_count(model.input));
  std::vector<float> samples(features * 4 * static_cast<std::size_t>(ranks));
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = std::sin(static_cast<float>(i) * 0.7f);
  for (int i = 0; i < 4 * ranks; ++i) labels.push_back(i % static_cast<int>(model.classes));
  const auto run = [](Program& program) {
    for (const WorkItem& item : program.forward_items()) program.issue(item);
    for (const WorkItem& item : program.backward_items()) program.issue(item);
  };

  const CommunicatorId id = backend.make_communicator_id();
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(ranks));
  std::vector<std::vector<float>> weights(static_cast<std::size_t>(ranks));
  std::vector<std::string> problems(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto worker = backend.make_worker(rank);
        const auto communicator = worker->join(id, rank, ranks);
        const auto program = worker->build(model, options);
        program->set_gradient_scale(1.0 / ranks);
        const Event ready = worker->make_event(), reduced = worker->make_event();
        const auto first = static_cast<std::size_t>(rank) * 4;
        program->set_input(std::span(samples).subspan(first * features, 4 * features),
                           std::span(labels).subspan(first, 4));
        for (int i = 0; i < 3; ++i) {
          run(*program);
          worker->record(ready, StreamKind::compute);
          worker->wait(StreamKind::communication, ready);
          communicator->enqueue(CollectiveKind::all_reduce, program->gradients(), program->gradients().bytes,
                                ElementType::fp32);
          worker->record(reduced, StreamKind::communication);
          worker->wait(StreamKind::compute, reduced);
          program->update();
        }
        const auto at = static_cast<std::size_t>(rank);
        sums[at] = program->checksum();
        weights[at] = program->read_parameter(0);
        communicator->check();
        const Buffer buffer = worker->allocate(1 << 20);
        for (const CollectiveKind kind :
             {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather,
              CollectiveKind::broadcast, CollectiveKind::reduce, CollectiveKind::all_to_all,
              CollectiveKind::send_recv}) {
          communicator->enqueue(kind, buffer, 1 << 19, ElementType::bf16);
          communicator->enqueue(kind, buffer, 1 << 20, ElementType::fp32);
        }
        worker->synchronize();
        communicator->check();
      } catch (const Error& error) {
        problems[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) CHECK(problem == "");

  options.batch = 4 * ranks;
  const auto worker = backend.make_worker(0);
  const auto program = worker->build(model, options);
  program->set_input(samples, labels);
  for (int i = 0; i < 3; ++i) {
    run(*program);
    program->update();
  }
  const std::vector<float> expected = program->read_parameter(0);
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    CHECK(sums[rank] == sums[0]);
    REQUIRE(weights[rank].size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(weights[rank][i] == approx(expected[i]).epsilon(1e-4));
    }
  }
  std::printf("data parallel on %d GPU%s\n", ranks, ranks == 1 ? "" : "s");
}
