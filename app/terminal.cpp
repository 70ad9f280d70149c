#include "app/terminal.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace foretrain::app {

bool is_terminal(int descriptor) {
  return ::isatty(descriptor) == 1;
}

bool shows_colour(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return is_terminal(descriptor) && (no_colour == nullptr || *no_colour == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

}  // namespace foretrain::app
