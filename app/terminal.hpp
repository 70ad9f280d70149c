// What the terminal at a file descriptor can show.
#pragma once

namespace foretrain::app {

bool is_terminal(int descriptor);
// A terminal that shows colour, and a user who has not asked for none (no-color.org).
bool shows_colour(int descriptor);

}  // namespace foretrain::app
