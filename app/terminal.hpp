// What the terminal at a file descriptor can show.
#pragma once

#include "sim/output/text_layout.hpp"

namespace foretrain::app {

bool is_terminal(int descriptor);
// A terminal that shows colour, and a user who has not asked for none (no-color.org).
bool shows_colour(int descriptor);
// Columns of the terminal, 80 where there is none or it is narrower than that.
int width_of(int descriptor);
// Whether the user's locale writes UTF-8.
bool speaks_utf8();
TextStyle text_style(int descriptor);

}  // namespace foretrain::app
