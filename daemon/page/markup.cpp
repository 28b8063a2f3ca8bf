#include "page/markup.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/duration.hpp"
#include "base/printable.hpp"
#include "explain/words.hpp"

namespace ff::daemon::page {
namespace {

using namespace std::chrono_literals;

constexpr int kPictureHeight = 26;
constexpr int kStepWidth = 2;
constexpr int kPictureWidth = kStepWidth * static_cast<int>(History::kSteps);

// A time that no clock ever shows comes from a row, too: its year has to fit.
std::tm parts(UnixMillis at) {
  constexpr UnixMillis kFirst{};
  constexpr UnixMillis kLast{std::chrono::hours{24 * 365 * 8000}};
  const auto whole = std::chrono::floor<std::chrono::seconds>(std::clamp(at, kFirst, kLast));
  return fmt::gmtime(static_cast<std::time_t>(whole.time_since_epoch().count()));
}

std::string picture(std::string_view cls, std::string_view label, std::string_view path) {
  return fmt::format(
      R"(<svg class="spark {}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}"><title>{}</title>)"
      R"(<path d="M0,{}H{}" class="base"/>{}</svg>)",
      cls, kPictureWidth, kPictureHeight, label, label, kPictureHeight - 0.5, kPictureWidth, path);
}

}  // namespace

std::string escaped(std::string_view text, std::size_t most) {
  std::string safe;
  for (const char c : printable(text, most)) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '"')
      safe += "&quot;";
    else if (c == '\'')
      safe += "&#39;";
    else
      safe += c;
  }
  return safe;
}

std::string date_text(UnixMillis at) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", parts(at));
}

std::string clock_text(UnixMillis at) {
  return fmt::format("{:%H:%M:%S}", parts(at));
}

std::string moment(UnixMillis at, UnixMillis now) {
  return fmt::format(R"(<time datetime="{:%Y-%m-%dT%H:%M:%SZ}" title="{} UTC">{}</time>)", parts(at),
                     date_text(at), explain::when(at, now));
}

std::string command_lines(const std::vector<std::string>& commands) {
  std::string lines;
  for (const std::string& command : commands)
    lines += fmt::format("<code class=\"paste\">{}</code>\n", escaped(command));
  return lines.empty() ? "" : "<div class=\"lines\">\n" + lines + "</div>\n";
}

std::string_view css(Severity severity) {
  switch (severity) {
    case Severity::fine:
      return "fine";
    case Severity::warning:
      return "warning";
    case Severity::problem:
      return "problem";
  }
  return "problem";
}

std::string mark(Severity severity, std::string_view word) {
  constexpr std::string_view kSigns[] = {"●", "▲", "■"};
  return fmt::format(R"(<span class="mark {}"><span aria-hidden="true">{}</span> {}</span>)", css(severity),
                     kSigns[static_cast<std::size_t>(severity)], escaped(word));
}

std::string section(std::string_view id, std::string_view heading, std::string_view body) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-h\"><h2 id=\"{0}-h\">{1}</h2>\n{2}</section>\n", id, heading,
      body);
}

std::string bars(const History::Steps& steps) {
  std::int64_t most = 0;
  for (const auto& step : steps) most = std::max(most, step.moved);
  std::string path;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].moved <= 0) continue;
    // One row is still seen beside a million.
    const double height =
        std::max(1.5, kPictureHeight * static_cast<double>(steps[i].moved) / static_cast<double>(most));
    path += fmt::format("M{},{}v-{:.1f}", static_cast<double>(i) * kStepWidth + 1, kPictureHeight, height);
  }
  const std::string label =
      fmt::format("rows moved in each 15 s of the last 15 minutes, at most {}", grouped(most));
  return picture("bars", label, path.empty() ? "" : fmt::format(R"(<path d="{}"/>)", path));
}

std::string curve(const History::Steps& steps) {
  Milliseconds worst{0};
  for (const auto& step : steps) worst = std::max(worst, step.late);
  const double scale = seconds(std::max<Milliseconds>(worst, 1s));
  std::string points;
  for (std::size_t i = 0; i < steps.size(); ++i)
    points += fmt::format("{}{},{:.1f}", i == 0 ? "" : " ", static_cast<double>(i) * kStepWidth + 1,
                          kPictureHeight - 1 - (kPictureHeight - 2) * seconds(steps[i].late) / scale);
  const std::string label =
      fmt::format("the latest row of each 15 s of the last 15 minutes, at most {}", spoken_duration(worst));
  return picture("curve", label,
                 worst > 0ms ? fmt::format(R"(<polyline points="{}"/>)", points) : std::string());
}

}  // namespace ff::daemon::page
