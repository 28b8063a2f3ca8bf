#include "config/problem.hpp"

#include <utility>

#include "base/printable.hpp"

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

std::string Problem::text() const {
  std::string text = file;
  if (line > 0) text += ':' + std::to_string(line);
  if (!text.empty()) text += ": ";
  if (!key.empty()) text += printable(key, kLongestQuoted) + ": ";
  if (!value.empty()) text += '"' + printable(value, kLongestQuoted) + "\": ";
  return text + printable(message, message.size());
}

Invalid::Invalid(std::vector<Problem> problems)
    : std::runtime_error(joined(problems)), problems_(std::move(problems)) {}

}  // namespace ff::config
