#include "config/problem.hpp"

#include <utility>

namespace ff::config {
namespace {

std::string joined(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    text += problem.text();
  }
  return text;
}

}  // namespace

std::string one_line(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  const auto is_continuation = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; };
  std::size_t length = text.size();
  if (length > kLongest) {
    length = kLongest;
    while (length > 0 && is_continuation(text[length])) --length;
  }
  std::string line(text.substr(0, length));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (length < text.size()) line += "...";
  return line;
}

std::string Problem::text() const {
  std::string text = file;
  if (line > 0) text += ':' + std::to_string(line);
  if (!text.empty()) text += ": ";
  if (!key.empty()) text += one_line(key) + ": ";
  if (!value.empty()) text += '"' + one_line(value) + "\": ";
  return text + message;
}

Invalid::Invalid(std::vector<Problem> problems)
    : std::runtime_error(joined(problems)), problems_(std::move(problems)) {}

}  // namespace ff::config
