#include "tests/output/timeline_checks.hpp"

#include <algorithm>
#include <map>

namespace foretrain::test {

std::vector<std::string> partial_overlaps(const Timeline& timeline) {
  std::vector<std::string> found;
  std::map<std::pair<int, Track>, std::vector<const Slice*>> tracks;
  for (const Slice& slice : timeline.slices) {
    if (slice.duration < Time()) found.push_back(slice.name + " ends before it starts");
    tracks[{slice.rank, slice.track}].push_back(&slice);
  }
  for (auto& [track, slices] : tracks) {
    std::stable_sort(slices.begin(), slices.end(), [](const Slice* a, const Slice* b) {
      return std::pair(a->start, b->duration) < std::pair(b->start, a->duration);
    });
    std::vector<const Slice*> open;
    for (const Slice* slice : slices) {
      while (!open.empty() && open.back()->start + open.back()->duration <= slice->start) open.pop_back();
      if (!open.empty() && open.back()->start + open.back()->duration < slice->start + slice->duration) {
        found.push_back(open.back()->name + " and " + slice->name + " overlap on rank " +
                        std::to_string(track.first) + ", " + name_of(track.second));
      }
      open.push_back(slice);
    }
  }
  return found;
}

}  // namespace foretrain::test
