#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.hpp"

namespace ff {

/// Reads a moment as RFC 3339 has it: "2026-11-24T06:00:00Z", "2026-11-24T06:00+01:00". The seconds may be left out, the
/// zone may not: a time without one means another moment on another machine. Nothing when it is not such a text or there
/// is no such day or time.
std::optional<UnixMillis> parse_moment(std::string_view text);

/// The same form, in UTC and to the second: "2026-11-24T06:00:00Z". Beyond the years 0 to 9999: the nearest in them.
std::string format_moment(UnixMillis at);

}  // namespace ff
