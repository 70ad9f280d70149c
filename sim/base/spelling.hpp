// "Did you mean": the known name that is nearest to a mistyped one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

// Number of insertions, deletions, substitutions and swaps of neighbours that turn one word into the other
// (optimal string alignment); upper and lower case count as equal, '-' and '_' as well.
int edit_distance(std::string_view a, std::string_view b);

// The nearest of `names`, the first of equals; none where even that differs in more than a third of its
// letters.
std::optional<std::string> closest_name(std::string_view word, const std::vector<std::string>& names);

// ", did you mean 'x'?" or nothing: ready to be put behind a message.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace foretrain
