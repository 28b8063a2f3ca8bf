#pragma once

#include <string>
#include <vector>

namespace ff::daemon {

// SGR parameters; empty: plain.
inline constexpr const char* kBold = "1";
inline constexpr const char* kDim = "2";
inline constexpr const char* kRed = "31";
inline constexpr const char* kGreen = "32";
inline constexpr const char* kYellow = "33";
inline constexpr const char* kCyan = "36";
inline constexpr const char* kTitle = "1;7";

/// How a terminal wants its text.
struct Style {
  int columns = 80;
  int rows = 24;
  bool colour = true;
  bool unicode = true;
};

/// A line of text that never grows wider than the screen. The text has no escape sequences and no wide
/// characters of its own. The style must outlive it.
class StyledLine {
 public:
  explicit StyledLine(const Style& style) : style_(style) {}

  StyledLine& add(const std::string& text, const char* sgr = "");
  /// Goes on at a column, counted from 0; does nothing beyond it.
  StyledLine& column(int at);
  /// At the right edge.
  StyledLine& right(const std::string& text, const char* sgr = "");
  // Once made, a line is nothing but text.
  operator std::string() const { return text_; }  // NOLINT(google-explicit-constructor)

 private:
  const Style& style_;
  std::string text_;
  int width_ = 0;
};

/// The terminal while the live view is on it: an alternate screen without cursor. The destructor gives back
/// what was there before.
class LiveScreen {
 public:
  LiveScreen();
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  /// From the upper left corner; what was below is erased.
  void draw(const std::vector<std::string>& lines);
};

/// Standard output is a terminal that can be drawn on.
bool can_draw();
/// Of standard output, as it is now.
Style style_of_output();

}  // namespace ff::daemon
