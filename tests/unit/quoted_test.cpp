// Values from outside, as they stand in lines that people paste.
#include "base/quoted.hpp"

#include <catch2/catch.hpp>

#include "base/printable.hpp"

using namespace ff;

TEST_CASE("a value is a literal of SQL that means the same whatever standard_conforming_strings is") {
  CHECK(sql_literal("") == "''");
  CHECK(sql_literal("it's {b2}, ümlauts and 漢字") == "'it''s {b2}, ümlauts and 漢字'");
  CHECK(sql_literal("a\\b") == R"(E'a\\b')");
  CHECK(sql_literal("b'\n; \\! rm") == R"(E'b''\x0a; \\! rm')");
  CHECK(sql_literal("\x1b[2J\t\x7f") == R"(E'\x1b[2J\x09\x7f')");
  CHECK(sql_literal("\xc2\x9b"
                    "a\u202eb") == R"(E'\u009ba\u202eb')");
  CHECK(sql_literal("broken \xff\xe6\xbc") == R"(E'broken \xff\xe6\xbc')");
}

TEST_CASE("a value is one word of a shell") {
  CHECK(shell_word("/etc/a b.yaml") == "'/etc/a b.yaml'");
  CHECK(shell_word("it's a\\b") == R"('it'\''s a\b')");
  CHECK(shell_word("it's\na\\b") == R"($'it\'s\x0aa\\b')");
  CHECK(shell_word("a\u202eb\xff") == R"($'a\xe2\x80\xaeb\xff')");
}

TEST_CASE("what is quoted is shown as it is") {
  std::string every;
  for (int c = 1; c < 256; ++c) every += static_cast<char>(c);
  for (const std::string& value : {every, std::string("\n a \t\n"), std::string("\u061c\u2028\u0085 é")}) {
    for (const std::string& line : {sql_literal(value), shell_word(value)})
      CHECK(printable(line, line.size()) == line);
  }
}
