#include "base/printable.hpp"

#include <algorithm>
#include <iterator>

#include "base/utf8.hpp"

namespace ff {
namespace {

constexpr std::string_view kBlank = " \t\n\r";
constexpr std::string_view kLineBreaks = "\n\r";

// U+0000 to U+001F, U+007F, and U+0080 to U+009F, which some terminals obey as well.
bool is_control(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  if (character.size() == 2) return lead == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
  return character.size() == 1 && (lead < 0x20 || lead == 0x7f);
}

// The marks of direction (Unicode, annex 9), which would turn what follows as well, and what ends a line.
constexpr std::string_view kMarks[] = {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b",
                                       "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"};

bool is_mark(std::string_view character) {
  return std::ranges::find(kMarks, character) != std::end(kMarks);
}

bool is_tail(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

std::string escaped(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {'\\', 'x', kDigits[byte >> 4U], kDigits[byte & 0xfU]};
  }
  return text;
}

}  // namespace

bool is_printable(std::string_view character) {
  return !is_control(character) && !is_mark(character);
}

std::string printable(std::string_view text, std::size_t most) {
  const bool all = text.size() <= most;
  if (!all) {
    while (most > 0 && is_tail(text[most])) --most;  // not through the middle of a character
    text = text.substr(0, most);
  }
  std::string shown;
  while (!text.empty()) {
    if (const std::size_t blank = std::min(text.find_first_not_of(kBlank), text.size()); blank > 0) {
      const bool breaks = text.substr(0, blank).find_first_of(kLineBreaks) != std::string_view::npos;
      const bool at_an_end = shown.empty() || blank == text.size();
      if (!breaks) shown.append(blank, ' ');
      if (breaks && !at_an_end) shown += ' ';
      text.remove_prefix(blank);
      continue;
    }
    const std::size_t length = utf8_sequence_length(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    shown += length > 0 && is_printable(sequence) ? std::string(sequence) : escaped(sequence);
    text.remove_prefix(sequence.size());
  }
  return all ? shown : shown + "…";
}

}  // namespace ff
