// The cursor's bytes are a contract with consumers that store them, FlowFabric's among them.
#include <catch2/catch.hpp>
#include <limits>

#include "lease/cursor.hpp"

using namespace ff::lease;
using namespace std::string_literals;
using Catch::Message;

TEST_CASE("a cursor is 0x02 and the event id in eight bytes, highest first") {
  CHECK(to_bytes({0x0102030405060708}) == "\x02\x01\x02\x03\x04\x05\x06\x07\x08"s);
  CHECK(to_bytes({0}) == "\x02\0\0\0\0\0\0\0\0"s);
  CHECK(to_hex({255}) == "0200000000000000ff");
}

TEST_CASE("a cursor reads back as what it was") {
  for (const std::int64_t id : {std::int64_t{0}, std::int64_t{1}, std::int64_t{256}, std::int64_t{0x80},
                                std::numeric_limits<std::int64_t>::max()}) {
    CHECK(parse_cursor(to_bytes({id})) == Cursor{id});
    CHECK(parse_hex_cursor(to_hex({id})) == Cursor{id});
  }
  CHECK(parse_hex_cursor("0200000000000000FF") == Cursor{255});
}

TEST_CASE("empty bytes are no cursor but a wish") {
  CHECK(parse_cursor("") == std::nullopt);
  CHECK(parse_hex_cursor("") == std::nullopt);
}

TEST_CASE("bytes that are no cursor are refused with the fault named") {
  CHECK_THROWS_MATCHES(parse_cursor("\x01\0\0\0\0\0\0\0\x07"s), InvalidCursor,
                       Message("the cursor begins with 0x01 instead of 0x02"));
  CHECK_THROWS_MATCHES(parse_cursor("\x02\0\0\0\0\0\0\0"s), InvalidCursor,
                       Message("the cursor has 8 bytes instead of 9"));
  CHECK_THROWS_MATCHES(parse_cursor("\x02"s), InvalidCursor, Message("the cursor has 1 bytes instead of 9"));
  CHECK_THROWS_MATCHES(parse_cursor("\x02\0\0\0\0\0\0\0\x07\0"s), InvalidCursor,
                       Message("the cursor has 10 bytes instead of 9"));
  CHECK_THROWS_MATCHES(parse_cursor("\x02\xff\xff\xff\xff\xff\xff\xff\xff"s), InvalidCursor,
                       Message("the cursor's event id is negative: -1"));
}

TEST_CASE("hexadecimal digits that are none are refused with the fault named") {
  CHECK_THROWS_MATCHES(parse_hex_cursor("02000000000000000g"), InvalidCursor,
                       Message("the cursor is not hexadecimal: 'g' is no digit"));
  CHECK_THROWS_MATCHES(parse_hex_cursor("020"), InvalidCursor,
                       Message("the cursor has an odd number of hexadecimal digits: 3"));
  CHECK_THROWS_AS(parse_hex_cursor("0x0200000000000000ff"), InvalidCursor);
}
