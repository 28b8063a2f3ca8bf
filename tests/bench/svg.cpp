#include "bench/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ff::bench {
namespace {

constexpr std::size_t kTitleWidth = 84;  // characters
constexpr double kTitleLine = 19;
constexpr double kMargin = 20;

std::string_view name(Anchor anchor) {
  return anchor == Anchor::start ? "start" : anchor == Anchor::middle ? "middle" : "end";
}

// Characters and not bytes: what continues a character in UTF-8 does not count.
std::size_t length(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string xml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else
      escaped += c;
  }
  return escaped;
}

double text_width(std::string_view text) {
  return 6.6 * static_cast<double>(length(text));
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines{""};
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!lines.back().empty() && length(lines.back()) + 1 + length(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

Drawing::Drawing(std::string_view title) : top_(kMargin + 12), title_(title) {
  for (const std::string& each : wrapped(title, kTitleWidth)) {
    body_ +=
        fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"14\" font-weight=\"600\" fill=\"{}\">{}</text>\n",
                    kMargin, top_, kInk, xml(each));
    top_ += kTitleLine;
  }
}

void Drawing::text(double x, double y, std::string_view text, Anchor anchor, std::string_view colour) {
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n", x, y,
                       name(anchor), colour, xml(text));
}

void Drawing::upright_text(double x, double y, std::string_view text) {
  body_ += fmt::format(
      "<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\" text-anchor=\"middle\" "
      "fill=\"{}\">{}</text>\n",
      x, y, kFaint, xml(text));
}

void Drawing::line(double x1, double y1, double x2, double y2, std::string_view colour) {
  body_ += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"1\"/>\n",
      x1, y1, x2, y2, colour);
}

void Drawing::bar(double x, double y, double width, double height, std::string_view colour) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"2\" fill=\"{}\"/>\n", x, y,
      width, height, colour);
}

void Drawing::dot(double x, double y, std::string_view colour) {
  body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", x, y, colour);
}

void Drawing::path(const std::vector<std::pair<double, double>>& points, std::string_view colour) {
  std::string list;
  for (const auto& [x, y] : points) list += fmt::format("{}{:.1f},{:.1f}", list.empty() ? "" : " ", x, y);
  body_ += fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-linejoin=\"round\"/>\n",
      list, colour);
}

std::string Drawing::document(double height) const {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1:.0f}\" viewBox=\"0 0 {0} "
             "{1:.0f}\" "
             "role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', "
             "Arial, "
             "sans-serif\" font-size=\"12\">\n<title>{2}</title>\n"
             "<rect x=\"0.5\" y=\"0.5\" width=\"{3}\" height=\"{4:.0f}\" rx=\"6\" fill=\"#fbfcfd\" "
             "stroke=\"{5}\"/>\n",
             kWidth, height, xml(title_), kWidth - 1, height - 1, kGrid) +
         body_ + "</svg>\n";
}

std::string_view Drawing::colour(std::size_t n) {
  constexpr std::array<std::string_view, 8> kColours = {"#1d6fd1", "#d9822b", "#5c7080", "#2e8b57",
                                                        "#a04fb3", "#b8323a", "#12a5a5", "#8a6d1a"};
  return kColours[n % kColours.size()];
}

}  // namespace ff::bench
