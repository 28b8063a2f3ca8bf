#include "demo/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace ff::daemon {
namespace {

bool starts_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

// How many columns a text takes; it has no escape sequences and no wide characters.
int width(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string cut(const std::string& text, int columns) {
  int seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (starts_character(text[i]) && seen++ == columns) return text.substr(0, i);
  return text;
}

}  // namespace

StyledLine& StyledLine::add(const std::string& text, const char* sgr) {
  const std::string fitting = cut(text, style_.columns - width_);
  width_ += width(fitting);
  const bool coloured = style_.colour && *sgr != '\0' && !fitting.empty();
  text_ += coloured ? fmt::format("\033[{}m{}\033[0m", sgr, fitting) : fitting;
  return *this;
}

StyledLine& StyledLine::column(int at) {
  return add(std::string(static_cast<std::size_t>(std::max(at - width_, 0)), ' '));
}

StyledLine& StyledLine::right(const std::string& text, const char* sgr) {
  return column(style_.columns - width(text)).add(text, sgr);
}

LiveScreen::LiveScreen() {
  std::cout << "\033[?1049h\033[?25l" << std::flush;
}

LiveScreen::~LiveScreen() {
  std::cout << "\033[?25h\033[?1049l" << std::flush;
}

void LiveScreen::draw(const std::vector<std::string>& lines) {
  std::string text = "\033[H";
  // Erased before it is written, because a full line leaves the cursor on its last character; and no line
  // feed after the last, which would scroll.
  for (std::size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "\033[2K" : "\r\n\033[2K") + lines[i];
  if (lines.size() < static_cast<std::size_t>(style_of_output().rows)) text += "\r\n\033[J";
  std::cout << text << std::flush;
}

bool can_draw() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

Style style_of_output() {
  Style style;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    style.columns = size.ws_col;
    style.rows = size.ws_row;
  }
  const char* no_colour = std::getenv("NO_COLOR");
  style.colour = can_draw() && (no_colour == nullptr || *no_colour == '\0');
  std::string charset;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    charset = value;
    break;
  }
  std::transform(charset.begin(), charset.end(), charset.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  style.unicode = charset.find("utf-8") != std::string::npos || charset.find("utf8") != std::string::npos;
  return style;
}

}  // namespace ff::daemon
