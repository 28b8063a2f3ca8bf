#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ff::bench {

/// The text as the content of an XML element.
std::string xml(std::string_view text);

/// How wide a text is at a size of 12, roughly: there is no font here to ask.
double text_width(std::string_view text);

/// The text in lines of at most `width` characters, broken at spaces.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

enum class Anchor { start, middle, end };

/// A drawing on a light ground of its own. Coordinates are pixels from the upper left.
class Drawing {
 public:
  static constexpr double kWidth = 720;

  /// With the title as its first lines.
  explicit Drawing(std::string_view title);

  /// The first free pixel below the title.
  double top() const { return top_; }

  void text(double x, double y, std::string_view text, Anchor anchor = Anchor::start,
            std::string_view colour = kInk);
  /// Turned to be read from below.
  void upright_text(double x, double y, std::string_view text);
  void line(double x1, double y1, double x2, double y2, std::string_view colour);
  void bar(double x, double y, double width, double height, std::string_view colour);
  void dot(double x, double y, std::string_view colour);
  void path(const std::vector<std::pair<double, double>>& points, std::string_view colour);

  std::string document(double height) const;

  static constexpr std::string_view kInk = "#1f2933";
  static constexpr std::string_view kFaint = "#52606d";
  static constexpr std::string_view kGrid = "#dde3ea";
  /// The n-th colour to tell things by; the first is for what is ours.
  static std::string_view colour(std::size_t n);

 private:
  double top_ = 0;
  std::string title_;
  std::string body_;
};

}  // namespace ff::bench
