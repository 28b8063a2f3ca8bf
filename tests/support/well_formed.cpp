#include "support/well_formed.hpp"

#include <regex>
#include <set>
#include <vector>

namespace ff::test {
namespace {

bool has_bare_ampersand(const std::string& text) {
  static const std::regex kEntity("&(amp|lt|gt|quot|apos|#[0-9]+);");
  return std::regex_replace(text, kEntity, "").find('&') != std::string::npos;
}

/// What is wrong with the inside of a start tag, its name excluded.
std::string wrong_attributes(std::string text) {
  static const std::regex kAttribute(R"re(^\s+([A-Za-z][-A-Za-z0-9]*)="([^"<]*)")re");
  std::set<std::string> names;
  for (std::smatch found; std::regex_search(text, found, kAttribute); text = found.suffix()) {
    if (!names.insert(found[1]).second) return "twice the attribute " + found[1].str();
    if (has_bare_ampersand(found[2])) return "a bare & in the attribute " + found[1].str();
  }
  return text.find_first_not_of(" \n") == std::string::npos ? "" : "no attribute: " + text;
}

/// Where the tag ends that begins at `from`: a > outside of quotes.
std::size_t end_of_tag(const std::string& text, std::size_t from) {
  bool quoted = false;
  for (std::size_t at = from; at < text.size(); ++at) {
    if (text[at] == '"') quoted = !quoted;
    if (text[at] == '>' && !quoted) return at;
  }
  return std::string::npos;
}

/// Takes one tag, without its brackets; `open` are the elements that are not closed yet.
std::string wrong_tag(const std::string& tag, std::vector<std::string>& open) {
  if (tag.starts_with('/')) {
    if (open.empty() || open.back() != tag.substr(1))
      return "</" + tag.substr(1) + "> closes <" + (open.empty() ? "" : open.back()) + ">";
    open.pop_back();
    return "";
  }
  const bool closed = tag.ends_with('/');
  const std::string inside = closed ? tag.substr(0, tag.size() - 1) : tag;
  const std::string name = inside.substr(0, inside.find_first_of(" \n"));
  static const std::regex kName("[A-Za-z][A-Za-z0-9]*");
  if (!std::regex_match(name, kName)) return "no element: <" + name;
  if (!closed) open.push_back(name);
  return wrong_attributes(inside.substr(name.size()));
}

}  // namespace

std::string malformed(const std::string& text) {
  constexpr std::string_view kDoctype = "<!DOCTYPE html>";
  std::vector<std::string> open;
  std::size_t at = text.starts_with(kDoctype) ? kDoctype.size() : 0;
  while (at < text.size()) {
    const std::size_t tag = std::min(text.find('<', at), text.size());
    if (has_bare_ampersand(text.substr(at, tag - at))) return "a bare & after byte " + std::to_string(at);
    if (tag == text.size()) break;
    const std::size_t end = end_of_tag(text, tag);
    if (end == std::string::npos) return "a tag without end at byte " + std::to_string(tag);
    if (auto wrong = wrong_tag(text.substr(tag + 1, end - tag - 1), open); !wrong.empty())
      return wrong + " at byte " + std::to_string(tag);
    at = end + 1;
  }
  return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

}  // namespace ff::test
