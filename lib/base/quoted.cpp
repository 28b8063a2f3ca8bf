#include "base/quoted.hpp"

#include <algorithm>

#include "base/printable.hpp"
#include "base/utf8.hpp"

namespace ff {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

/// How a language writes what cannot stand for itself.
struct Quotation {
  std::string_view begin_escaping;  ///< of a text in which a backslash escapes
  std::string_view quote;           ///< a single quote in another text
  std::string_view quote_escaping;  ///< and in one in which a backslash escapes
  bool may_always_escape = false;   ///< a backslash may do so in every text
  bool knows_code_points = false;   ///< \uXXXX, right in whatever encoding the reader has
};
constexpr Quotation kSql{"E'", "''", "''", true, true};
constexpr Quotation kShell{"$'", R"('\'')", R"(\')"};

std::string by_bytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {'\\', 'x', kHexDigits[byte >> 4U], kHexDigits[byte & 0xfU]};
  }
  return text;
}

// Of two or three bytes, as all are that is not shown as it is.
std::string by_code_point(std::string_view character) {
  unsigned code = static_cast<unsigned char>(character[0]) & (character.size() == 2 ? 0x1fU : 0xfU);
  for (const char c : character.substr(1)) code = code << 6U | (static_cast<unsigned char>(c) & 0x3fU);
  return {'\\',
          'u',
          kHexDigits[code >> 12U & 0xfU],
          kHexDigits[code >> 8U & 0xfU],
          kHexDigits[code >> 4U & 0xfU],
          kHexDigits[code & 0xfU]};
}

/// The characters of a text, and bytes that are none, one after the other.
template <typename Visit>
void each_character(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    visit(character, length > 0 && is_printable(character));
    text.remove_prefix(character.size());
  }
}

// Without standard_conforming_strings a backslash escapes in every literal of SQL.
bool needs_escapes(std::string_view value, const Quotation& in) {
  bool needs = in.may_always_escape && value.find('\\') != std::string_view::npos;
  each_character(value, [&](std::string_view, bool is_plain) { needs = needs || !is_plain; });
  return needs;
}

std::string quoted_in(std::string_view value, const Quotation& in) {
  const bool escapes = needs_escapes(value, in);
  std::string text(escapes ? in.begin_escaping : "'");
  each_character(value, [&](std::string_view character, bool is_plain) {
    if (!is_plain)
      text += in.knows_code_points && character.size() > 1 ? by_code_point(character) : by_bytes(character);
    else if (character == "'")
      text += escapes ? in.quote_escaping : in.quote;
    else
      text += escapes && character == "\\" ? "\\\\" : character;
  });
  return text + '\'';
}

}  // namespace

std::string sql_literal(std::string_view value) {
  return quoted_in(value, kSql);
}

std::string shell_word(std::string_view value) {
  return quoted_in(value, kShell);
}

}  // namespace ff
