#include "sim/network/contention.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace foretrain {
namespace {

// The level up to which demands on a link of capacity 1 are met.
double water_level(std::vector<double> demands) {
  std::sort(demands.begin(), demands.end());
  double left = 1;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    const double level = left / static_cast<double>(demands.size() - i);
    if (demands[i] >= level) return level;
    left -= demands[i];
  }
  return 1;
}

}  // namespace

std::vector<double> progress_of(std::span<const std::vector<LinkBusy>* const> collectives) {
  using Users = std::vector<std::pair<std::size_t, double>>;  // collective and its share
  std::map<int, Users> links;
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    for (const LinkBusy& busy : *collectives[i]) links[busy.link].emplace_back(i, busy.share);
  }
  std::erase_if(links, [](const auto& link) {
    double sum = 0;
    for (const auto& [user, share] : link.second) sum += share;
    return link.second.size() < 2 || sum <= 1;
  });
  std::vector<double> progress(collectives.size(), 1);
  std::vector<bool> is_fixed(collectives.size());
  for (;;) {
    // The slowest is as slow as it gets: what it leaves is the others'.
    std::vector<double> least(collectives.size(), 1);
    for (const auto& [link, users] : links) {
      std::vector<double> demands;
      for (const auto& [user, share] : users) demands.push_back(share * progress[user]);
      const double level = water_level(demands);
      for (const auto& [user, share] : users) {
        if (!is_fixed[user] && share > level) least[user] = std::min(least[user], level / share);
      }
    }
    std::size_t slowest = collectives.size();
    for (std::size_t i = 0; i < collectives.size(); ++i) {
      if (!is_fixed[i] && least[i] < 1 && (slowest == collectives.size() || least[i] < least[slowest])) {
        slowest = i;
      }
    }
    if (slowest == collectives.size()) return progress;
    progress[slowest] = least[slowest];
    is_fixed[slowest] = true;
  }
}

}  // namespace foretrain
