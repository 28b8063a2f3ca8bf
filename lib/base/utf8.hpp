#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace ff {

/// The length of the well-formed sequence at the start of `text`, 0 when there is none (Unicode, table 3-7).
std::size_t utf8_sequence_length(std::string_view text);

/// The offset of the first byte that is not part of well-formed UTF-8, if there is one.
std::optional<std::size_t> invalid_utf8_at(std::string_view text);

/// The offset of the first control character, if there is one. Tabs and line breaks count only when `strict`.
std::optional<std::size_t> control_character_at(std::string_view text, bool strict);

}  // namespace ff
