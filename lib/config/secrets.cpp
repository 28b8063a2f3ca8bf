#include "config/secrets.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/nearest.hpp"
#include "base/text.hpp"
#include "base/url_hosts.hpp"

namespace ff::config {
namespace {

constexpr std::string_view kBlank = " \t\n\r\f\v";
constexpr auto npos = std::string_view::npos;
constexpr int kMostRounds = 4;

bool is_blank(char c) {
  return kBlank.find(c) != npos;
}

/// libpq decodes the names of URL parameters, too.
std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
      decoded += static_cast<char>(code);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

bool names_a_secret(std::string_view keyword) {
  std::string name = percent_decoded(keyword);
  std::ranges::transform(name, name.begin(), lower_case);
  const auto has = [&](std::string_view part) { return name.find(part) != npos; };
  return (has("pass") && name != "passfile") || has("pw") || has("secret") || has("token") ||
         (has("scram") && has("key")) || !nearest(name, {"password"}).empty();
}

std::string_view behind_last(std::string_view text, std::string_view signs) {
  const std::size_t sign = text.find_last_of(signs);
  return sign == npos ? text : text.substr(sign + 1);
}

/// Where the secret in a parameter of a URL begins, or npos. That need not be behind the first "=": in "u?a=b@h/d?password=c"
/// libpq takes "u?a=b" for the user, and the second "?" for the one that begins the query.
std::size_t secret_value(std::string_view parameter) {
  for (std::size_t begin = 0, equals = parameter.find('='); equals != npos;
       begin = equals + 1, equals = parameter.find('=', begin)) {
    const std::string_view name = parameter.substr(begin, equals - begin);
    if (names_a_secret(name) || names_a_secret(behind_last(name, "?"))) return equals + 1;
  }
  return npos;
}

std::string hide_in_query(std::string_view query, bool after_secret = false) {
  std::string shown;
  for (std::size_t at = 0; at <= query.size();) {
    const std::size_t end = std::min(query.find('&', at), query.size());
    const std::string_view parameter = query.substr(at, end - at);
    at = end + 1;
    const std::size_t value = secret_value(parameter);
    const bool has_value = parameter.find('=') != npos;
    // A part without "=" behind a secret is the rest of one that contains a bare "&".
    if (!has_value && after_secret) continue;
    after_secret = value != npos || names_a_secret(behind_last(parameter, "?="));
    if (!shown.empty()) shown += '&';
    shown += parameter.substr(0, value);
    if (value != npos) shown += kHidden;
  }
  return shown;
}

/// Everything from the first colon to the last "@" goes: a password with a bare "@", "/" or "?" in it is no
/// valid URL, but a secret all the same. Where a "?" comes before that "@", nobody can tell a password with one from a
/// query whose values have an "@", and what follows may be a host or the rest of a secret: then this goes, too, as far as
/// its parameter would reach. Where the "?" comes before the colon, everything goes from there.
std::string hide_in_url(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::size_t begin = scheme == npos ? 0 : scheme + 3;
  const std::size_t colon = url.find(':', begin);
  const std::size_t at = url.rfind('@');
  const std::size_t query = url.find('?');
  std::string shown;
  if (colon != npos && at != npos && colon < at) {
    shown.append(url.substr(0, std::min(colon, query) + 1)).append(kHidden);
    if (query < at) {
      const std::size_t next = url.find('&', at);
      return next == npos ? shown : shown + '&' + hide_in_query(url.substr(next + 1), true);
    }
    url.remove_prefix(at);
  } else if (scheme != npos && colon < query && !has_only_ports(url.substr(begin, query - begin))) {
    // It may be a password whose host was forgotten, or whose "@" was: nobody can tell where it ends.
    return shown.append(url.substr(0, colon + 1)).append(kHidden);
  }
  const std::size_t rest = url.find('?');
  if (rest == npos) return shown.append(url);
  return shown.append(url.substr(0, rest + 1)).append(hide_in_query(url.substr(rest + 1)));
}

struct KeywordValue {
  std::size_t end;
  bool terminated;
};

/// The end of a value by libpq's rules: quoted or up to white space, a backslash escapes the next character.
KeywordValue end_of_value(std::string_view text, std::size_t at) {
  const bool quoted = at < text.size() && text[at] == '\'';
  if (quoted) ++at;
  for (; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (quoted && text[at] == '\'')
      return {at + 1, true};
    else if (!quoted && is_blank(text[at]))
      return {at, true};
  }
  return {text.size(), !quoted};
}

std::string hide_in_keywords(std::string_view text);

/// Others than libpq end a value with a semicolon.
std::string hide_in_value(std::string_view text) {
  const std::size_t end = text.find(';');
  if (end == npos) return hide_in_url(text);
  return hide_in_url(text.substr(0, end)) + ';' + hide_in_keywords(text.substr(end + 1));
}

/// Reads a keyword string from left to right and copies what may be shown.
std::string hide_in_keywords(std::string_view text) {
  std::string shown;
  bool after_secret = false;
  for (std::size_t at = 0; at < text.size();) {
    if (is_blank(text[at])) {
      shown += text[at++];
      continue;
    }
    const std::size_t begin = at;
    while (at < text.size() && is_word_character(text[at])) ++at;
    const std::string_view word = text.substr(begin, at - begin);
    const std::size_t equals = std::min(text.find_first_not_of(kBlank, at), text.size());
    if (word.empty() || equals == text.size() || text[equals] != '=') {
      // No keyword: the rest of an unquoted secret, a misspelled URL, or a secret whose "=" was forgotten.
      const std::size_t end = std::min(text.find_first_of(kBlank, begin), text.size());
      if (!after_secret) shown += hide_in_url(text.substr(begin, end - begin));
      after_secret = after_secret || names_a_secret(word);
      at = end;
      continue;
    }
    const std::size_t value = std::min(text.find_first_not_of(kBlank, equals + 1), text.size());
    const auto [end, terminated] = end_of_value(text, value);
    after_secret = names_a_secret(word) || !terminated;
    shown += text.substr(begin, value - begin);
    shown += after_secret ? std::string(kHidden) : hide_in_value(text.substr(value, end - value));
    // Behind a closing quote the next keyword may begin at once; behind what is shown instead it may not.
    if (after_secret && end < text.size() && !is_blank(text[end])) shown += ' ';
    at = end;
  }
  return shown;
}

std::string hide_once(std::string_view conninfo) {
  const std::size_t scheme = conninfo.find("://");
  const std::size_t start = std::min(conninfo.find_first_not_of(kBlank), conninfo.size());
  if (scheme != npos && conninfo.substr(start, scheme - start).find_first_of("= \t\r\n") == npos)
    return hide_in_url(conninfo);
  return hide_in_keywords(conninfo);
}

}  // namespace

std::string hide_secrets(std::string_view conninfo) {
  // What is shown goes into messages that are hidden once more, and must come out of that as it went in.
  std::string shown = hide_once(conninfo);
  for (int round = 0; round < kMostRounds; ++round) {
    std::string again = hide_once(shown);
    if (again == shown) return shown;
    shown = std::move(again);
  }
  return std::string(kHidden);
}

}  // namespace ff::config
