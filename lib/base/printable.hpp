#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ff {

/// How much of such a text is shown, in bytes.
inline constexpr std::size_t kLongestShown = 1024;

/// A text from outside (a server's message, an id in a row) as it may stand in a log, on a terminal or in an
/// answer: it can neither begin a line of its own nor steer a terminal, nor is what follows it turned by it. A line break
/// becomes a space, with the blanks around it; a tab, a space; other control characters, the marks of direction
/// (Unicode, annex 9), U+2028 and U+2029, and bytes that are no UTF-8, \xNN; and what follows the first `most`
/// bytes, "…".
std::string printable(std::string_view text, std::size_t most = kLongestShown);

/// Whether this one character, a well-formed sequence of UTF-8, is shown there as it is.
bool is_printable(std::string_view character);

}  // namespace ff
