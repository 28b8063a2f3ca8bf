#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ff {

/// How much of such a text is shown, in bytes.
inline constexpr std::size_t kLongestShown = 1024;

/// A text from outside (a server's message, an id in a row) as it may stand in a log, on a terminal or in an
/// answer: it can neither begin a line of its own, nor turn the direction of one, nor steer a terminal. A line break
/// becomes a space, with the blanks around it; a tab, a space; other control characters, those that turn text from right
/// to left, and bytes that are no UTF-8, \xNN; and what follows the first `most` bytes, "…".
std::string printable(std::string_view text, std::size_t most = kLongestShown);

}  // namespace ff
