#include "base/fragments.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/text.hpp"

namespace ff {
namespace {

constexpr auto npos = std::string_view::npos;
constexpr int kDeepest = 20;  // fragments within fragments: nobody writes so many

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_name(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

/// At most `most` parts, the last of which takes all that is left.
std::vector<std::string> split(std::string_view text, std::size_t most) {
  std::vector<std::string> parts;
  while (parts.size() + 1 < most && text.find(',') != npos) {
    parts.emplace_back(trimmed(text.substr(0, text.find(','))));
    text.remove_prefix(text.find(',') + 1);
  }
  parts.emplace_back(trimmed(text));
  return parts;
}

/// Where the next placeholder begins; npos: there is none.
std::size_t next_placeholder(std::string_view text) {
  for (auto at = text.find('{'); at != npos; at = text.find('{', at + 1))
    if (at + 1 < text.size() && is_letter(text[at + 1])) return at;
  return npos;
}

/// The length of the placeholder with which the text begins, both braces included.
std::size_t length_of_placeholder(std::string_view text) {
  int open = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') ++open;
    if (text[i] == '}' && --open == 0) return i + 1;
  }
  throw std::invalid_argument("a placeholder without an end: " + std::string(text.substr(0, 40)));
}

}  // namespace

Fragments& Fragments::add(const Fragment& fragment) {
  const auto bracket = fragment.signature.find('(');
  const std::string name(fragment.signature.substr(0, bracket));
  Parsed parsed{{}, fragment.text};
  if (bracket != npos) {
    std::string_view list = fragment.signature.substr(bracket + 1);
    list.remove_suffix(1);
    parsed.parameters = split(list, npos);
  }
  if (!is_name(name)) throw std::invalid_argument("no name for a fragment: '" + name + "'");
  if (!fragments_.emplace(name, std::move(parsed)).second)
    throw std::invalid_argument("two fragments have the name '" + name + "'");
  return *this;
}

Fragments& Fragments::add(const std::vector<Fragment>& fragments) {
  for (const Fragment& fragment : fragments) add(fragment);
  return *this;
}

std::string Fragments::expand(std::string_view text) const {
  return expand(text, {}, 0);
}

std::string Fragments::expand(std::string_view text, const Arguments& arguments, int depth) const {
  std::string expanded;
  for (;;) {
    const auto begin = next_placeholder(text);
    expanded += text.substr(0, begin);
    if (begin == npos) return expanded;
    text.remove_prefix(begin);
    const auto length = length_of_placeholder(text);
    expanded += filled_in(text.substr(0, length), arguments, depth);
    text.remove_prefix(length);
  }
}

std::string Fragments::filled_in(std::string_view placeholder, const Arguments& arguments, int depth) const {
  const std::string_view inside = placeholder.substr(1, placeholder.size() - 2);
  const auto colon = inside.find(':');
  const std::string_view name = inside.substr(0, colon);
  const std::string shown(placeholder.substr(0, 80));
  if (!is_name(name)) throw std::invalid_argument("a malformed placeholder: " + shown);
  if (const auto argument = arguments.find(name); argument != arguments.end() && colon == npos)
    return argument->second;
  const auto found = fragments_.find(name);
  if (found == fragments_.end())
    throw std::invalid_argument("an unknown placeholder: " + shown + "; known are " + known(arguments));
  const Parsed& fragment = found->second;
  if (fragment.text == placeholder) return fragment.text;
  if (depth == kDeepest) throw std::invalid_argument("a fragment within itself: " + shown);

  std::vector<std::string> given;
  if (colon != npos)
    given = split(inside.substr(colon + 1), std::max<std::size_t>(fragment.parameters.size(), 1));
  if (given.size() != fragment.parameters.size() || std::ranges::count(given, "") > 0)
    throw std::invalid_argument("a placeholder with " + std::to_string(given.size()) +
                                " arguments instead of " + std::to_string(fragment.parameters.size()) + ": " +
                                shown);
  Arguments own;
  for (std::size_t i = 0; i < given.size(); ++i)
    own.emplace(fragment.parameters[i], expand(given[i], arguments, depth + 1));
  return expand(fragment.text, own, depth + 1);
}

std::string Fragments::known(const Arguments& arguments) const {
  std::string names;
  for (const auto& [name, value] : arguments) names += (names.empty() ? "" : ", ") + name;
  for (const auto& [name, fragment] : fragments_) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace ff
