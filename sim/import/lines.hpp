// Text of other tools, line by line: endings of any system, byte-order marks, colours of a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

// Lines without their ends (LF, CR LF, or a lone CR as progress bars leave it) and without a byte-order mark.
std::vector<std::string_view> lines_of(std::string_view text);

// Without the sequences that colour, underline or move (ECMA-48), and without backspaced-over characters.
std::string without_escapes(std::string_view text);

// Split at blanks; none are empty.
std::vector<std::string_view> words_of(std::string_view line);

// Cells between separators, without blanks around them and quotes; a doubled quote within quotes is one.
std::vector<std::string> cells_of(std::string_view line, char separator);

std::string_view trimmed(std::string_view text);

// ASCII letters.
std::string lower_case(std::string_view text);

// The whole text as a decimal number, scientific or not; false for "nan", "inf", "N/A" and all else.
bool read_number(std::string_view text, double& value);

}  // namespace foretrain
