#include "sim/network/nvlink_rings.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace foretrain {
namespace {

constexpr int most_steps = 200'000;  // of one search
constexpr int most_rings = 32;
constexpr double nearly = 1e-9;

using Ring = std::vector<int>;
using Links = std::vector<std::vector<int>>;  // of one rate, from GPU to GPU, that are free

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

// Rings that share no link: each ring that is found is taken as often as its links are there, both ways
// round, and the search goes on among the others.
class RingPacking {
 public:
  explicit RingPacking(Links free) : free_(std::move(free)), gpus_(static_cast<int>(free_.size())) {
    bound_ = most_rings;
    for (std::size_t a = 0; a < free_.size(); ++a) {
      int out = 0, in = 0;
      for (std::size_t b = 0; b < free_.size(); ++b) {
        out += free_[a][b];
        in += free_[b][a];
      }
      bound_ = std::min({bound_, out, in});
    }
  }

  std::vector<Ring> find() {
    pack();
    return best_;
  }

 private:
  void pack() {
    if (taken_.size() > best_.size()) best_ = taken_;
    if (is_done()) return;
    Ring ring = {0};
    std::vector<char> is_on(at(gpus_), 0);
    is_on[0] = 1;
    extend(ring, is_on);
  }

  bool is_done() const { return steps_ <= 0 || static_cast<int>(best_.size()) >= bound_; }

  void extend(Ring& ring, std::vector<char>& is_on) {
    if (--steps_ <= 0) return;
    const std::vector<int>& links = free_[at(ring.back())];
    if (static_cast<int>(ring.size()) == gpus_) {
      if (links[0] > 0) take(ring);
      return;
    }
    std::vector<int> next;
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      if (!is_on[at(gpu)] && links[at(gpu)] > 0) next.push_back(gpu);
    }
    std::stable_sort(next.begin(), next.end(), [&](int a, int b) { return links[at(a)] > links[at(b)]; });
    for (const int gpu : next) {
      ring.push_back(gpu);
      is_on[at(gpu)] = 1;
      extend(ring, is_on);
      is_on[at(gpu)] = 0;
      ring.pop_back();
      if (is_done()) return;
    }
  }

  void take(const Ring& ring) {
    Ring back = ring;
    std::reverse(back.begin() + 1, back.end());
    const int most = std::min(links_of(ring), room());
    for (const int limit : {most, 1}) {
      const int times = std::min(most, limit);
      add(ring, times);
      const int times_back = std::min({links_of(back), room(), limit});
      add(back, times_back);
      pack();
      add(back, -times_back);
      add(ring, -times);
      if (most == 1 || is_done()) return;
    }
  }

  int room() const { return most_rings - static_cast<int>(taken_.size()); }

  int links_of(const Ring& ring) const {
    int least = most_rings;
    for (std::size_t i = 0; i < ring.size(); ++i) {
      least = std::min(least, free_[at(ring[i])][at(ring[(i + 1) % ring.size()])]);
    }
    return least;
  }

  void add(const Ring& ring, int times) {
    for (std::size_t i = 0; i < ring.size(); ++i) {
      free_[at(ring[i])][at(ring[(i + 1) % ring.size()])] -= times;
    }
    if (times > 0) taken_.insert(taken_.end(), at(times), ring);
    if (times < 0) taken_.resize(taken_.size() - at(-times));
  }

  Links free_;
  int gpus_ = 0, bound_ = 0, steps_ = most_steps;
  std::vector<Ring> taken_, best_;
};

// One ring with as few hops as can be that are no links.
class FewestOtherHops {
 public:
  explicit FewestOtherHops(const LinkRates& rates) : rates_(rates) {}

  // Of no more than the order of the GPUs has, else empty.
  Ring find() {
    Ring ring(rates_.size());
    std::iota(ring.begin(), ring.end(), 0);
    fewest_ = 0;
    for (std::size_t i = 0; i < ring.size(); ++i) fewest_ += other(ring[i], ring[(i + 1) % ring.size()]);
    ring = {0};
    std::vector<char> is_on(rates_.size(), 0);
    is_on[0] = 1;
    extend(ring, is_on, 0);
    return best_;
  }

 private:
  int other(int a, int b) const { return rates_[at(a)][at(b)] > 0 ? 0 : 1; }

  void extend(Ring& ring, std::vector<char>& is_on, int others) {
    if (--steps_ <= 0 || others >= fewest_) return;
    if (ring.size() == rates_.size()) {
      others += other(ring.back(), 0);
      if (others >= fewest_) return;
      fewest_ = others;
      best_ = ring;
      return;
    }
    for (const int is_other : {0, 1}) {
      for (int gpu = 0; gpu < static_cast<int>(rates_.size()); ++gpu) {
        if (is_on[at(gpu)] || other(ring.back(), gpu) != is_other) continue;
        ring.push_back(gpu);
        is_on[at(gpu)] = 1;
        extend(ring, is_on, others + is_other);
        is_on[at(gpu)] = 0;
        ring.pop_back();
      }
    }
  }

  const LinkRates& rates_;
  int fewest_ = 0, steps_ = most_steps;
  Ring best_;
};

}  // namespace

std::vector<std::vector<int>> nvlink_rings(const LinkRates& rates) {
  std::set<double> units;  // what a ring may carry: a link of some pair, or half of it
  double most = 0;         // that leaves or reaches every GPU
  for (std::size_t a = 0; a < rates.size(); ++a) {
    double out = 0, in = 0;
    for (std::size_t b = 0; b < rates.size(); ++b) {
      out += rates[a][b];
      in += rates[b][a];
      if (rates[a][b] > 0) units.insert({rates[a][b], rates[a][b] / 2});
    }
    most = a == 0 ? std::min(out, in) : std::min({most, out, in});
  }
  if (rates.size() < 3 || units.empty()) return {};
  std::vector<std::vector<int>> best;
  double carried = 0;
  for (auto unit = units.rbegin(); unit != units.rend() && carried < most * (1 - nearly); ++unit) {
    Links links(rates.size(), std::vector<int>(rates.size()));
    for (std::size_t a = 0; a < rates.size(); ++a) {
      for (std::size_t b = 0; b < rates.size(); ++b) {
        links[a][b] = static_cast<int>(std::min<double>(most_rings, rates[a][b] / *unit * (1 + nearly)));
      }
    }
    std::vector<std::vector<int>> rings = RingPacking(std::move(links)).find();
    if (static_cast<double>(rings.size()) * *unit > carried * (1 + nearly)) {
      carried = static_cast<double>(rings.size()) * *unit;
      best = std::move(rings);
    }
  }
  if (!best.empty()) return best;
  Ring ring = FewestOtherHops(rates).find();
  if (ring.empty()) return {};
  return {std::move(ring)};
}

}  // namespace foretrain
