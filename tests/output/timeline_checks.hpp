// What must hold of every timeline.
#pragma once

#include <string>
#include <vector>

#include "sim/output/timeline.hpp"

namespace foretrain::test {

// Pairs of slices on one track that overlap without one holding the other, and slices that end before they
// start; each as a line of text. Empty where the timeline is sound.
std::vector<std::string> partial_overlaps(const Timeline& timeline);

}  // namespace foretrain::test
