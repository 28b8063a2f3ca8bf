// A cursor of the lease history, as a consumer hands it back: its bytes, or their hexadecimal digits.
#include "lease/cursor.hpp"

#include <algorithm>

#include "promise.hpp"

namespace {

using namespace ff;

std::string in_lower_case(std::string digits) {
  std::ranges::transform(digits, digits.begin(),
                         [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
  return digits;
}

void read_bytes(const std::string& bytes) {
  try {
    const auto cursor = lease::parse_cursor(bytes);
    fuzz::promise((cursor ? to_bytes(*cursor) : "") == bytes, "a cursor is written as it was read", bytes);
    fuzz::promise(!cursor || lease::parse_hex_cursor(to_hex(*cursor)) == cursor, "digits say the same",
                  bytes);
  } catch (const lease::InvalidCursor&) {
  }
}

void read_digits(const std::string& digits) {
  try {
    const auto cursor = lease::parse_hex_cursor(digits);
    fuzz::promise((cursor ? to_hex(*cursor) : "") == in_lower_case(digits),
                  "digits are written as they were read", digits);
  } catch (const lease::InvalidCursor&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  read_bytes(text);
  read_digits(text);
  return 0;
}
