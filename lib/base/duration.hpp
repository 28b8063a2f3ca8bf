#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.hpp"

namespace ff {

/// Reads a duration with its unit: a non-negative decimal integer followed by `ms`, `s`, `m`, `h` or `d`
/// ("1500ms", "2s", "7d"). Nothing when the unit is missing or unknown, or the value does not fit.
std::optional<Milliseconds> parse_duration(std::string_view text);

/// The shortest exact form that parse_duration reads back: 90000 ms is "90s", 120000 ms is "2m".
std::string format_duration(Milliseconds duration);

/// How long something took or is away, for people, to two units: "3.2 s", "2 m 3 s", "1 d 2 h". Of a duration below
/// zero, its length.
std::string spoken_duration(Milliseconds duration);

}  // namespace ff
