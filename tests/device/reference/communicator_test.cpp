#include "device/reference/communicator.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "device/registry.hpp"
#include "sim/base/error.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::device;
using foretrain::test::approx;

namespace {

// Runs work(rank, communicator) on one thread a rank; the messages of errors, by rank.
std::vector<std::string> on_ranks(int ranks, const std::function<void(int, Communicator&)>& work) {
  const CommunicatorId id = reference::make_communicator_id();
  std::vector<std::string> problems(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto communicator = reference::join(id, rank, ranks);
        work(rank, *communicator);
      } catch (const Error& error) {
        problems[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return problems;
}

// Element i of rank r is before the call 10 r + i; what each rank holds after it.
std::vector<std::vector<float>> after(CollectiveKind kind, int ranks, int root = 0) {
  std::vector<std::vector<float>> all(static_cast<std::size_t>(ranks));
  const auto problems = on_ranks(ranks, [&](int rank, Communicator& communicator) {
    auto& mine = all[static_cast<std::size_t>(rank)];
    for (int i = 0; i < 6; ++i) mine.push_back(static_cast<float>(10 * rank + i));
    communicator.enqueue(kind, {mine.data(), 24}, 24, ElementType::fp32, root);
  });
  for (const std::string& problem : problems) CHECK(problem == "");
  return all;
}

using Rows = std::vector<std::vector<float>>;

}  // namespace

TEST_CASE("collectives between threads do what their names say") {
  CHECK(after(CollectiveKind::all_reduce, 3) == Rows(3, {30, 33, 36, 39, 42, 45}));
  CHECK(after(CollectiveKind::reduce, 2, 1) == Rows{{0, 1, 2, 3, 4, 5}, {10, 12, 14, 16, 18, 20}});
  CHECK(after(CollectiveKind::broadcast, 2, 1) == Rows(2, {10, 11, 12, 13, 14, 15}));
  CHECK(after(CollectiveKind::reduce_scatter, 2) == Rows{{10, 12, 14, 3, 4, 5}, {10, 11, 12, 16, 18, 20}});
  CHECK(after(CollectiveKind::all_gather, 3) == Rows(3, {0, 1, 12, 13, 24, 25}));
  CHECK(after(CollectiveKind::all_to_all, 2) == Rows{{0, 1, 2, 10, 11, 12}, {3, 4, 5, 13, 14, 15}});
  CHECK(after(CollectiveKind::send_recv, 3) ==
        Rows{{20, 21, 22, 23, 24, 25}, {0, 1, 2, 3, 4, 5}, {10, 11, 12, 13, 14, 15}});
  CHECK(after(CollectiveKind::all_reduce, 1) == Rows{{0, 1, 2, 3, 4, 5}});
}

TEST_CASE("a rank that fails, leaves or calls something else does not let the others wait") {
  auto problems = on_ranks(2, [](int rank, Communicator& communicator) {
    float value = 0;
    if (rank == 0) communicator.enqueue(CollectiveKind::all_reduce, {&value, 4}, 4, ElementType::fp32);
  });
  CHECK(problems[0] == "rank 1 has left the communicator");
  CHECK(problems[1] == "");

  problems = on_ranks(2, [](int rank, Communicator& communicator) {
    float values[2] = {};
    communicator.enqueue(CollectiveKind::all_reduce, {values, 8}, rank == 0 ? 4 : 8, ElementType::fp32);
  });
  CHECK(problems[0].find("ranks disagree on a collective: rank 0 calls all_reduce of 4 bytes, rank 1") == 0);

  problems = on_ranks(2, [](int rank, Communicator& communicator) {
    float values[2] = {};
    if (rank == 1) return communicator.abort();
    communicator.enqueue(CollectiveKind::broadcast, {values, 8}, 8, ElementType::fp32);
  });
  CHECK(problems[0] == "rank 1 aborted the communicator");

  problems = on_ranks(2, [](int, Communicator& communicator) {
    float values[3] = {};
    communicator.enqueue(CollectiveKind::all_gather, {values, 12}, 12, ElementType::fp32);
  });
  CHECK(problems[0].find("its size is no multiple of 8 bytes") != std::string::npos);
}

TEST_CASE("a rank that has left is no error to those who wait for nothing more") {
  std::atomic<bool> gone = false;
  const auto problems = on_ranks(2, [&gone](int rank, Communicator& communicator) {
    float value = 1;
    communicator.enqueue(CollectiveKind::all_reduce, {&value, 4}, 4, ElementType::fp32);
    if (rank == 0) return;
    for (int i = 0; i < 100; ++i) communicator.check();
    gone = true;
  });
  CHECK(gone);
  CHECK(problems == std::vector<std::string>(2));
}

TEST_CASE("many collectives in a row keep their order") {
  const auto problems = on_ranks(4, [](int rank, Communicator& communicator) {
    for (int i = 0; i < 200; ++i) {
      double value = rank + i;
      communicator.enqueue(CollectiveKind::all_reduce, {&value, 8}, 8, ElementType::fp64);
      if (value != 6 + 4 * i) throw Error(ErrorKind::failure, "round " + std::to_string(i));
    }
  });
  for (const std::string& problem : problems) CHECK(problem == "");
}

TEST_CASE("the module trains data-parallel: two workers with half a batch are one worker with the whole") {
  Backend& backend = open_backend("reference");
  CHECK(backend.name() == "reference");
  const Model model = test::tiny_mlp();
  const std::int64_t whole = 8;
  std::vector<float> images(static_cast<std::size_t>(whole * 16));
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  for (int i = 0; i < whole; ++i) labels.push_back(i % 3);

  const auto train = [&](int ranks) {
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(ranks));
    std::vector<float> weights;
    const CommunicatorId id = backend.make_communicator_id();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto worker = backend.make_worker(rank);
        BuildOptions options;
        options.batch = whole / ranks;
        options.optimizer = model.optimizer;
        options.gradients = ElementType::fp64;
        const auto program = worker->build(model, options);
        const auto communicator = worker->join(id, rank, ranks);
        const auto share = static_cast<std::size_t>(options.batch);
        program->set_input(std::span(images).subspan(share * 16 * static_cast<std::size_t>(rank), share * 16),
                           std::span(labels).subspan(share * static_cast<std::size_t>(rank), share));
        program->set_gradient_scale(1.0 / ranks);
        for (int step = 0; step < 5; ++step) {
          for (const WorkItem& item : program->forward_items()) program->issue(item);
          for (const WorkItem& item : program->backward_items()) program->issue(item);
          communicator->enqueue(CollectiveKind::all_reduce, program->gradients(), program->gradients().bytes,
                                ElementType::fp64);
          program->update();
        }
        sums[static_cast<std::size_t>(rank)] = program->checksum();
        if (rank == 0) weights = program->read_parameter(0);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::uint64_t sum : sums) CHECK(sum == sums[0]);
    return weights;
  };
  const std::vector<float> alone = train(1), together = train(2);
  REQUIRE(alone.size() == together.size());
  for (std::size_t i = 0; i < alone.size(); ++i) CHECK(alone[i] == approx(together[i]).epsilon(1e-6));
}

TEST_CASE("events carry the wall clock, buffers are counted") {
  const auto worker = open_backend("reference").make_worker(0);
  const Event first = worker->make_event(), second = worker->make_event();
  CHECK_FALSE(worker->reached(first));
  CHECK_THROWS_AS(worker->seconds_between(first, second), Error);
  worker->record(first, StreamKind::compute);
  worker->spin_kernel(StreamKind::compute, 2e-3);
  worker->record(second, StreamKind::compute);
  CHECK(worker->seconds_between(first, second) >= 2e-3);
  CHECK_THROWS_AS(worker->record({7}, StreamKind::compute), Error);
  const Buffer buffer = worker->allocate(1000);
  CHECK(worker->peak_bytes() == 1000);
  worker->release(buffer);
  worker->reset_peak();
  CHECK(worker->peak_bytes() == 0);
  CHECK_THROWS_AS(worker->release(buffer), Error);
  CHECK_THROWS_AS(worker->copy("sideways", 10, true, -1), Error);
  CHECK_THROWS_AS(open_backend("reference").make_worker(1000), Error);
}
