#pragma once

#include <string_view>

namespace ff {

/// Of ASCII: no locale has a say in it.
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Of a name, as SQL, libpq and the shell have them.
constexpr bool is_word_character(char c) {
  return is_letter(c) || is_digit(c) || c == '_';
}

constexpr char lower_case(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Without the blanks, tabs and ends of lines at both ends. A part of `text`.
constexpr std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace ff
