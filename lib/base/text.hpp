#pragma once

#include <string_view>

namespace ff {

/// Of ASCII: no locale has a say in it.
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Without the blanks, tabs and ends of lines at both ends. A part of `text`.
constexpr std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace ff
