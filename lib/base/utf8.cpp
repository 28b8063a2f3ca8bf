#include "base/utf8.hpp"

namespace ff {

std::size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto within = [&](std::size_t i, unsigned least, unsigned most) {
    return byte(i) >= least && byte(i) <= most;
  };
  const auto tail = [&](std::size_t i) { return within(i, 0x80, 0xbf); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const unsigned least = lead == 0xe0 ? 0xa0U : 0x80U;  // no overlong form
    const unsigned most = lead == 0xed ? 0x9fU : 0xbfU;   // no surrogate
    return within(1, least, most) && tail(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const unsigned least = lead == 0xf0 ? 0x90U : 0x80U;
    const unsigned most = lead == 0xf4 ? 0x8fU : 0xbfU;  // nothing above U+10FFFF
    return within(1, least, most) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

std::optional<std::size_t> invalid_utf8_at(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::optional<std::size_t> control_character_at(std::string_view text, bool strict) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    const bool layout = c == '\t' || c == '\n' || c == '\r';
    if (control && (strict || !layout)) return at;
  }
  return std::nullopt;
}

}  // namespace ff
