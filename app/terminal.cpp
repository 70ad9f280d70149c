#include "app/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
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

int width_of(int descriptor) {
  constexpr int usual = 80, widest = 160;
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return usual;
  return std::clamp<int>(size.ws_col, usual, widest);
}

bool speaks_utf8() {
  // The first of these that is set decides, as POSIX has it.
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string locale = value;
    std::transform(locale.begin(), locale.end(), locale.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

TextStyle text_style(int descriptor) {
  return {width_of(descriptor), shows_colour(descriptor), speaks_utf8()};
}

}  // namespace foretrain::app
