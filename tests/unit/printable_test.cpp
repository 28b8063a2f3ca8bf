// Texts from outside, as they are shown.
#include <catch2/catch.hpp>

#include "base/printable.hpp"

using namespace ff;

TEST_CASE("a text from outside begins no line of its own and steers no terminal") {
  CHECK(printable("plain, with ümlauts and 漢字") == "plain, with ümlauts and 漢字");
  CHECK(printable("one\n  two\r\n\r\nthree\n") == "one two three");
  CHECK(printable("\n\n") == "");
  CHECK(printable("a\tb  c") == "a b  c");
  CHECK(printable("\x1b[31mred\x07") == "\\x1b[31mred\\x07");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\xc2\\x9b2J");  // CSI as one character
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("ends \u202eemos") == "ends \\xe2\\x80\\xaeemos");
  CHECK(printable("\u2066a\u2069 b\u2028c\u200f\u061c") ==
        "\\xe2\\x81\\xa6a\\xe2\\x81\\xa9 b\\xe2\\x80\\xa8c\\xe2\\x80\\x8f\\xd8\\x9c");
  CHECK(printable("शब्द\u200d עברית") ==
        "शब्द\u200d עברית");  // letters join, and a script has its own direction
  CHECK(printable("broken \xff\xe6\xbc") == "broken \\xff\\xe6\\xbc");
}

TEST_CASE("of a long text from outside only the beginning is shown") {
  CHECK(printable("12345", 5) == "12345");
  CHECK(printable("123456", 5) == "12345…");
  CHECK(printable("1234ü6", 5) == "1234…");  // no half a character
  CHECK(printable(std::string(1'000'000, 'x')).size() == kLongestShown + std::string("…").size());
  CHECK(printable(std::string(1'000'000, '\n') + "x") == "…");
}
