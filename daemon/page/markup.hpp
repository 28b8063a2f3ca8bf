#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "page/chronicle.hpp"
#include "page/history.hpp"

/// The small pieces that the page is written with. The markup is HTML and well-formed XML at once.
namespace ff::daemon::page {

/// How much of a text from outside is shown on the page, in bytes.
constexpr std::size_t kLongestOnPage = 400;

/// Text from outside as it may stand in an element or a quoted attribute: it begins no tag, ends no attribute, and is
/// on one line.
std::string escaped(std::string_view text, std::size_t most = kLongestOnPage);

/// "2026-11-23 21:20:05", UTC.
std::string date_text(UnixMillis at);
/// "21:20:05", UTC.
std::string clock_text(UnixMillis at);
/// <time>: "3.2 s ago" or "in 12 s", with the moment itself as its title.
std::string moment(UnixMillis at, UnixMillis now);

/// Lines to paste, each of which one click marks as a whole; nothing where there is none.
std::string command_lines(const std::vector<std::string>& commands);
/// The sign and the word of a severity: "▲ warning".
std::string mark(Severity severity, std::string_view word);
/// The name of a severity as a class of the style sheet.
std::string_view css(Severity severity);

/// A heading and what belongs below it, as a section of its own.
std::string section(std::string_view id, std::string_view heading, std::string_view body);

/// Bars, one for each step, the highest as high as the picture.
std::string bars(const History::Steps& steps);
/// A line over the steps. What stays below a second looks flat.
std::string curve(const History::Steps& steps);

}  // namespace ff::daemon::page
