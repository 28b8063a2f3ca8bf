#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ff::lease {

/// A place in the lease history: right behind the event with this id. 0 is before all events.
///
/// Its bytes are FlowFabric's: 0x02, then the id as a signed 64-bit number, big-endian. A consumer keeps them
/// and hands them back; empty bytes stand for "behind the newest event there is".
struct Cursor {
  std::int64_t event_id = 0;
  friend auto operator<=>(Cursor, Cursor) = default;
};

/// Bytes that are no cursor; the message names the fault.
class InvalidCursor : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

std::string to_bytes(Cursor cursor);
/// Nothing for empty bytes. Throws InvalidCursor for a wrong prefix, a wrong length or a negative id.
std::optional<Cursor> parse_cursor(std::string_view bytes);

/// The same bytes as hexadecimal digits (written in lower case, read in either).
std::string to_hex(Cursor cursor);
std::optional<Cursor> parse_hex_cursor(std::string_view digits);

}  // namespace ff::lease
