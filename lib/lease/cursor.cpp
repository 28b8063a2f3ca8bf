#include "lease/cursor.hpp"

namespace ff::lease {
namespace {

constexpr unsigned char kPrefix = 0x02;  // 0x01 is FlowFabric's other store
constexpr std::size_t kIdBytes = 8;
constexpr std::string_view kDigits = "0123456789abcdef";

std::string hex(std::string_view bytes) {
  std::string digits;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    digits += {kDigits[byte >> 4U], kDigits[byte & 0x0FU]};
  }
  return digits;
}

unsigned value_of(char digit) {
  if (digit >= 'A' && digit <= 'F') digit = static_cast<char>(digit - 'A' + 'a');
  const auto value = kDigits.find(digit);
  if (value == std::string_view::npos)
    throw InvalidCursor("the cursor is not hexadecimal: '" + std::string(1, digit) + "' is no digit");
  return static_cast<unsigned>(value);
}

}  // namespace

std::string to_bytes(Cursor cursor) {
  std::string bytes(1, static_cast<char>(kPrefix));
  const auto id = static_cast<std::uint64_t>(cursor.event_id);
  for (std::size_t i = kIdBytes; i-- > 0;) bytes += static_cast<char>((id >> (8 * i)) & 0xFFU);
  return bytes;
}

std::optional<Cursor> parse_cursor(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  if (static_cast<unsigned char>(bytes[0]) != kPrefix)
    throw InvalidCursor("the cursor begins with 0x" + hex(bytes.substr(0, 1)) + " instead of 0x02");
  if (bytes.size() != 1 + kIdBytes)
    throw InvalidCursor("the cursor has " + std::to_string(bytes.size()) + " bytes instead of 9");
  std::uint64_t id = 0;
  for (const char c : bytes.substr(1)) id = id << 8U | static_cast<unsigned char>(c);
  const auto event_id = static_cast<std::int64_t>(id);
  if (event_id < 0) throw InvalidCursor("the cursor's event id is negative: " + std::to_string(event_id));
  return Cursor{event_id};
}

std::string to_hex(Cursor cursor) {
  return hex(to_bytes(cursor));
}

std::optional<Cursor> parse_hex_cursor(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(value_of(digits[i]) << 4U | value_of(digits[i + 1]));
  if (digits.size() % 2 != 0)
    throw InvalidCursor("the cursor has an odd number of hexadecimal digits: " +
                        std::to_string(digits.size()));
  return parse_cursor(bytes);
}

}  // namespace ff::lease
