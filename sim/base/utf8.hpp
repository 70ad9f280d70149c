// Text whose encoding is not known.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace foretrain {

// Length of the well-formed UTF-8 sequence at the start of `text` (Unicode 15, table 3-7), which is not
// empty; 0 where there is none.
std::size_t utf8_sequence(std::string_view text);

// The whole text is UTF-8.
bool is_utf8(std::string_view text);

// One line that any file can hold: quotes, backslashes, control characters and bytes that are no UTF-8 become
// '_', and what is longer than `most` bytes ends in "...".
std::string plain_line(std::string_view text, std::size_t most = 200);

}  // namespace foretrain
