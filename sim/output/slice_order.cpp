#include "sim/output/slice_order.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace foretrain {

std::vector<std::size_t> slice_order(const Timeline& timeline) {
  std::vector<std::size_t> order(timeline.slices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Slice &left = timeline.slices[a], &right = timeline.slices[b];
    return std::tuple(left.rank, left.track, left.start, right.duration, a) <
           std::tuple(right.rank, right.track, right.start, left.duration, b);
  });
  return order;
}

}  // namespace foretrain
