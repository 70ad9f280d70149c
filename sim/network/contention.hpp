// Collectives of several jobs that run at one time and share links.
#pragma once

#include <span>
#include <vector>

namespace foretrain {

// Part of the time of a collective alone for which it keeps a link busy.
struct LinkBusy {
  int link = 0;
  double share = 0;  // at most 1
};

// How fast each of them goes on, 1 as alone: max-min fair bandwidth on every link. Who needs less of a link
// than an equal share has what it needs, the others divide the rest. Links of each in increasing order.
std::vector<double> progress_of(std::span<const std::vector<LinkBusy>* const> collectives);

}  // namespace foretrain
