// Collectives of the cpu backend among workers of one process, each a thread, by Gloo over the loopback
// interface.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "sim/base/error.hpp"
#include "tests/support/cpu_backend.hpp"

using namespace foretrain;
using namespace foretrain::device;

namespace {

struct Member {
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Communicator> communicator;
};

// Runs on every rank at once; throws what the first that failed has thrown. Ranks share cores where there
// are too few.
void on_ranks(Backend& backend, int ranks, const std::function<void(Member&)>& work) {
  const CommunicatorId id = backend.make_communicator_id();
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Member member;
        member.worker = backend.make_worker(rank % backend.device_count());
        member.communicator = member.worker->join(id, rank, ranks);
        work(member);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

// Element i of rank r is r + 1 + i / 1024: sums are exact.
float element(int rank, std::int64_t i) {
  return static_cast<float>(rank + 1) + static_cast<float>(i % 512) / 1024;
}

// A buffer for two such vectors; after the collective, what lies in it.
std::vector<float> after(Member& member, CollectiveKind kind, std::int64_t count, int root) {
  const Buffer buffer = member.worker->allocate(2 * count * 4);
  std::vector<float> values(static_cast<std::size_t>(2 * count));
  for (std::int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = element(member.communicator->rank(), i);
  member.worker->write(buffer, std::as_bytes(std::span(values)));
  member.communicator->enqueue(kind, buffer, count * 4, ElementType::fp32, root);
  member.worker->synchronize(StreamKind::communication);
  member.worker->read(buffer, std::as_writable_bytes(std::span(values)));
  member.worker->release(buffer);
  return values;
}

// Largest difference from what is expected of the elements [first, last); expected(i) of element i.
double worst(const std::vector<float>& values, std::int64_t first, std::int64_t last,
             const std::function<double(std::int64_t)>& expected) {
  double most = 0;
  for (std::int64_t i = first; i < last; ++i)
    most = std::max(most, std::abs(double{values[static_cast<std::size_t>(i)]} - expected(i)));
  return most;
}

}  // namespace

TEST_CASE("collectives of the cpu backend give what they should") {
  Backend* cpu = test::cpu_backend();
  if (cpu == nullptr) return;
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    for (const std::int64_t share : {1, 250, 70'000}) {
      CAPTURE(share);
      const std::int64_t count = share * ranks;
      const auto sum = [&](std::int64_t i) {
        double total = 0;
        for (int r = 0; r < ranks; ++r) total += double{element(r, i)};
        return total;
      };
      const int root = ranks - 1;
      std::vector<std::vector<double>> errors(static_cast<std::size_t>(ranks));
      on_ranks(*cpu, ranks, [&](Member& member) {
        const int rank = member.communicator->rank();
        const std::int64_t mine = share * rank;
        auto& error = errors[static_cast<std::size_t>(rank)];
        error.push_back(worst(after(member, CollectiveKind::all_reduce, count, 0), 0, count, sum));
        error.push_back(worst(after(member, CollectiveKind::broadcast, count, root), 0, count,
                              [&](std::int64_t i) { return double{element(root, i)}; }));
        const auto reduced = after(member, CollectiveKind::reduce, count, root);
        error.push_back(rank == root ? worst(reduced, 0, count, sum) : 0);
        error.push_back(
            worst(after(member, CollectiveKind::all_gather, count, 0), 0, count,
                  [&](std::int64_t i) { return double{element(static_cast<int>(i / share), i)}; }));
        error.push_back(
            worst(after(member, CollectiveKind::reduce_scatter, count, 0), mine, mine + share, sum));
        error.push_back(
            worst(after(member, CollectiveKind::all_to_all, count, 0), count, 2 * count, [&](std::int64_t i) {
              const std::int64_t at = i - count;
              return double{element(static_cast<int>(at / share), mine + at % share)};
            }));
        const int before = (rank + ranks - 1) % ranks;
        error.push_back(worst(after(member, CollectiveKind::send_recv, count, 0), count, 2 * count,
                              [&](std::int64_t i) { return double{element(before, i - count)}; }));
      });
      for (const std::vector<double>& error : errors) {
        REQUIRE(error.size() == 7);
        for (std::size_t kind = 0; kind < error.size(); ++kind) {
          CAPTURE(kind);
          CHECK(error[kind] < 1e-3);
        }
      }
    }
  }
}

TEST_CASE("a collective runs beside the compute stream, and the compute stream can wait for it") {
  Backend* cpu = test::cpu_backend();
  if (cpu == nullptr) return;
  std::vector<double> waited(2), beside(2);
  on_ranks(*cpu, 2, [&](Member& member) {
    Worker& worker = *member.worker;
    const Buffer buffer = worker.allocate(1 << 20);
    const Event begin = worker.make_event(), reduced = worker.make_event(), computed = worker.make_event(),
                joined = worker.make_event();
    worker.record(begin, StreamKind::compute);
    worker.spin_kernel(StreamKind::compute, 0.3);
    worker.record(computed, StreamKind::compute);
    member.communicator->enqueue(CollectiveKind::all_reduce, buffer, buffer.bytes, ElementType::fp32);
    worker.record(reduced, StreamKind::communication);
    worker.wait(StreamKind::compute, reduced);
    worker.record(joined, StreamKind::compute);
    worker.synchronize();
    const auto rank = static_cast<std::size_t>(member.communicator->rank());
    beside[rank] = worker.seconds_between(reduced, computed);
    waited[rank] = worker.seconds_between(reduced, joined);
  });
  for (const double seconds : beside) CHECK(seconds > 0);  // the sum was there before the kernel ended
  for (const double seconds : waited) CHECK(seconds > 0);
}

TEST_CASE("a rank that leaves is an error of the others, and an aborted communicator ends what waits in it") {
  Backend* cpu = test::cpu_backend();
  if (cpu == nullptr) return;
  for (const bool aborts : {false, true}) {
    CAPTURE(aborts);
    std::string what;
    on_ranks(*cpu, 2, [&](Member& member) {
      if (member.communicator->rank() == 1) {
        if (aborts) std::this_thread::sleep_for(std::chrono::milliseconds(500));
        return;
      }
      const Buffer buffer = member.worker->allocate(1 << 22);
      member.communicator->enqueue(CollectiveKind::all_reduce, buffer, buffer.bytes, ElementType::fp32);
      std::thread other;
      if (aborts) {
        other = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          member.communicator->abort();
        });
      }
      try {
        member.worker->synchronize(StreamKind::communication);
      } catch (const Error& error) {
        what = error.what();
      }
      if (other.joinable()) other.join();
      CHECK_THROWS_AS(member.communicator->check(), Error);
    });
    CHECK(what.find("all_reduce on rank 0") != std::string::npos);
  }
}

TEST_CASE("an all-reduce of the cpu backend by Gloo's bcube gives what it should") {
  Backend* cpu = test::cpu_backend();
  if (cpu == nullptr) return;
  ::setenv("GLOO_ALGO", "bcube", 1);
  for (const int ranks : {2, 3, 4, 6}) {
    CAPTURE(ranks);
    for (const std::int64_t count : {1, 1000, 70'001}) {
      CAPTURE(count);
      std::vector<double> errors(static_cast<std::size_t>(ranks));
      on_ranks(*cpu, ranks, [&](Member& member) {
        const auto values = after(member, CollectiveKind::all_reduce, count, 0);
        errors[static_cast<std::size_t>(member.communicator->rank())] =
            worst(values, 0, count, [&](std::int64_t i) {
              double total = 0;
              for (int r = 0; r < ranks; ++r) total += double{element(r, i)};
              return total;
            });
      });
      CHECK(*std::max_element(errors.begin(), errors.end()) == 0);
    }
  }
  ::unsetenv("GLOO_ALGO");
}

TEST_CASE("Gloo's sums are of fp32 and fp64 alone") {
  Backend* cpu = test::cpu_backend();
  if (cpu == nullptr) return;
  on_ranks(*cpu, 1, [](Member& member) {
    const Buffer buffer = member.worker->allocate(64);
    CHECK_THROWS_AS(member.communicator->enqueue(CollectiveKind::all_reduce, buffer, 64, ElementType::bf16),
                    Error);
  });
}

// A descriptor's number is another file's the moment it is closed. The sanitizer of threads sees who asks
// about one that a directory's stream has, and fails itself: it has not seen that stream's beginning.
TEST_CASE("who meets does not touch the descriptors that other threads open and close") {
  Backend* cpu = test::cpu_backend();
  if (cpu == nullptr) return;
  std::atomic<int> read = 0;
  {
    std::vector<std::jthread> others;
    for (int i = 0; i < 2; ++i) {
      others.emplace_back([&read](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/fdinfo"))
            ++read;
        }
      });
    }
    for (int meeting = 0; meeting < 20; ++meeting) on_ranks(*cpu, 2, [](Member&) {});
  }
  CHECK(read > 0);
}
