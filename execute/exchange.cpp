#include "execute/exchange.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace foretrain {

using device::StreamKind;

Exchange::Exchange(device::Worker& worker, device::Communicator* communicator)
    : worker_(worker), communicator_(communicator) {}

Exchange::~Exchange() {
  if (buffer_.data != nullptr) worker_.release(buffer_);
}

// Not by the library's synchronize, which would not return where a peer has died: the watchdog aborts the
// communicator, and the event is reached.
void Exchange::synchronize() {
  if (done_.id < 0) done_ = worker_.make_event();
  worker_.record(done_, StreamKind::communication);
  while (!worker_.reached(done_)) std::this_thread::sleep_for(std::chrono::microseconds(50));
  communicator_->check();
}

std::vector<std::byte> Exchange::gather_equal(std::span<const std::byte> mine) {
  const auto share = static_cast<std::int64_t>(mine.size());
  const std::int64_t whole = share * ranks();
  if (buffer_.bytes < whole) {
    if (buffer_.data != nullptr) worker_.release(buffer_);
    buffer_ = worker_.allocate(whole);
  }
  const device::Buffer used{buffer_.data, whole};
  auto* own = static_cast<std::byte*>(buffer_.data) + communicator_->rank() * share;
  worker_.write({own, share}, mine);
  // Bytes travel as elements of four: sizes are multiples of that.
  communicator_->enqueue(CollectiveKind::all_gather, used, whole, device::ElementType::fp32);
  synchronize();
  std::vector<std::byte> all(static_cast<std::size_t>(whole));
  worker_.read(used, all);
  return all;
}

std::vector<std::vector<std::byte>> Exchange::all_gather(std::span<const std::byte> mine) {
  if (ranks() == 1) return {std::vector<std::byte>(mine.begin(), mine.end())};
  const std::uint64_t size = mine.size();
  const std::vector<std::byte> sizes = gather_equal(std::as_bytes(std::span(&size, 1)));
  std::vector<std::uint64_t> of_rank(static_cast<std::size_t>(ranks()));
  std::memcpy(of_rank.data(), sizes.data(), sizes.size());
  const std::uint64_t largest = *std::max_element(of_rank.begin(), of_rank.end());
  std::vector<std::vector<std::byte>> all(of_rank.size());
  if (largest == 0) return all;
  std::vector<std::byte> padded(static_cast<std::size_t>((largest + 7) / 8 * 8));
  std::copy(mine.begin(), mine.end(), padded.begin());
  const std::vector<std::byte> bytes = gather_equal(padded);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::byte* from = bytes.data() + rank * padded.size();
    all[rank].assign(from, from + of_rank[rank]);
  }
  return all;
}

std::vector<double> Exchange::all_gather(double mine) {
  if (ranks() == 1) return {mine};
  const std::vector<std::byte> bytes = gather_equal(std::as_bytes(std::span(&mine, 1)));
  std::vector<double> values(static_cast<std::size_t>(ranks()));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

double Exchange::mean(double mine) {
  double sum = 0;
  for (const double value : all_gather(mine)) sum += value;
  return sum / ranks();
}

double Exchange::greatest(double mine) {
  const std::vector<double> values = all_gather(mine);
  return *std::max_element(values.begin(), values.end());
}

}  // namespace foretrain
