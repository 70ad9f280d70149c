#include "sim/base/utf8.hpp"

#include <doctest/doctest.h>

using namespace foretrain;

TEST_CASE("well-formed UTF-8 is told from all else") {
  CHECK(is_utf8(""));
  CHECK(is_utf8("plain, \xC3\xA9, \xE2\x82\xAC, \xF0\x9F\x98\x80"));
  for (const char* bad :
       {"\x80", "\xC0\xAF", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_utf8(bad));
    CHECK(utf8_sequence(bad) == 0);
  }
}

TEST_CASE("a line of foreign text can stand in any file") {
  CHECK(plain_line("loss/train \xC3\xA9") == "loss/train \xC3\xA9");
  CHECK(plain_line("a\nsteps: [[1, 1 s]]\x1b[2J\x97\"\\") == "a_steps: [[1, 1 s]]_[2J___");
  CHECK(plain_line("\xC3\xA9\xC3\xA9", 3) == "\xC3\xA9...");
  CHECK(plain_line("abc", 3) == "abc");
}
