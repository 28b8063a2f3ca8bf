#include "pg/conninfo.hpp"

#include <libpq-fe.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "base/nearest.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/url_hosts.hpp"
#include "pg/connection.hpp"
#include "pg/conninfo_values.hpp"

namespace ff::pg {
namespace {

struct FreeOptions {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};
using OptionList = std::unique_ptr<PQconninfoOption, FreeOptions>;

using Attempt = std::unique_ptr<PGconn, Connection::Finish>;

// A word that libpq knows for no setting.
constexpr const char* kNoWord = "none-of-libpq's-words";

Keywords keywords_of(const OptionList& options) {
  Keywords keywords;
  for (const PQconninfoOption* option = options.get(); option != nullptr && option->keyword != nullptr;
       ++option)
    if (option->val != nullptr && *option->val != '\0') keywords[option->keyword] = option->val;
  return keywords;
}

// libpq quotes the part at fault, and that part may be a password, with quotes of its own in it.
std::string without_quotes(std::string message) {
  const std::size_t open = message.find('"');
  const std::size_t close = message.rfind('"');
  if (open != close) message.replace(open, close + 1 - open, "…");
  return printable(message);
}

// A bare "/" or "@" in a user or password is legal where libpq takes it for the end of one: the rest of the
// password becomes a host, a port or a database, and is no secret any more.
void refuse_bare_signs(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == std::string_view::npos ||
      url.substr(0, scheme).find_first_of("= \t\n") != std::string_view::npos)
    return;
  url = url.substr(scheme + 3, url.find('?', scheme) - scheme - 3);
  const auto at = url.find('@');
  if (at == std::string_view::npos) return;
  if (at > url.find('/') || url.find('@', at + 1) != std::string_view::npos)
    throw std::invalid_argument(
        "the URL has a bare \"@\" or \"/\" in user, password or database: percent-encode it (%40, %2F)");
}

// "postgres//u@h/d", "postgresql:/h/d", "//h/d"
bool is_nearly_a_url(std::string_view text) {
  for (const std::string_view scheme : {"postgresql", "postgres", ""})
    if (text.starts_with(scheme))
      return text.substr(scheme.size()).starts_with('/') || text.substr(scheme.size()).starts_with(":/");
  return false;
}

// Otherwise libpq takes it for keywords, and misses an "=".
void refuse_other_schemes(std::string_view text) {
  const auto scheme = text.find("://");
  const bool is_url = text.starts_with("postgresql://") || text.starts_with("postgres://");
  const bool has_scheme =
      scheme != std::string_view::npos && scheme != 0 &&
      text.substr(0, scheme).find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-") == std::string_view::npos;
  if (is_url || (!has_scheme && !is_nearly_a_url(text))) return;
  throw std::invalid_argument("a URL of a database begins with postgresql://, and this one does not");
}

std::vector<std::string> known_keywords() {
  const OptionList options(PQconndefaults());
  std::vector<std::string> known;
  for (const PQconninfoOption* option = options.get(); option != nullptr && option->keyword != nullptr;
       ++option)
    known.emplace_back(option->keyword);
  return known;
}

bool is_name(std::string_view name) {
  constexpr std::size_t kLongest = 40;
  return !name.empty() && name.size() <= kLongest && std::ranges::all_of(name, is_word_character);
}

// The first keyword that libpq does not know. Empty where there is none, and where it may be part of a password: behind one,
// or behind a quote or a backslash, in which a blank does not end the value.
std::string unknown_keyword(std::string_view text, const std::vector<std::string>& known) {
  constexpr std::string_view kBlank = " \t\n\r\f\v";
  text = text.substr(0, text.find_first_of("'\\"));
  for (auto at = text.find_first_not_of(kBlank); at != std::string_view::npos;
       at = text.find_first_not_of(kBlank, at)) {
    const std::string_view setting = text.substr(at, text.find_first_of(kBlank, at) - at);
    const auto equals = setting.find('=');
    const std::string_view name = setting.substr(0, equals);
    if (equals == std::string_view::npos || equals + 1 == setting.size() || !is_name(name)) return {};
    if (std::ranges::find(known, name) == known.end()) return std::string(name);
    if (name.find("password") != std::string_view::npos) return {};
    at += setting.size();
  }
  return {};
}

// The first parameter in the query of a URL that libpq does not know. Empty where there is none, and where it may be part
// of a password: one with a bare "?" before the hosts, or with a bare "&" in the query.
std::string unknown_parameter(std::string_view url, const std::vector<std::string>& known) {
  const bool is_url = url.starts_with("postgresql://") || url.starts_with("postgres://");
  const auto mark = url.find('?');
  if (!is_url || mark == std::string_view::npos) return {};
  const auto begin = url.find("://") + 3;
  const std::string_view before = url.substr(begin, mark - begin);
  std::string_view query = url.substr(mark + 1);
  if (query.find_first_of("?@") != std::string_view::npos) return {};
  if (before.find('@') == std::string_view::npos && !has_only_ports(before)) return {};
  while (!query.empty()) {
    const std::string_view parameter = query.substr(0, query.find('&'));
    const std::string_view name = parameter.substr(0, parameter.find('='));
    const bool has_one_value = std::ranges::count(parameter, '=') == 1;
    if (!has_one_value || !is_name(name)) return {};
    if (std::ranges::find(known, name) == known.end() && parameter != "ssl=true") return std::string(name);
    if (name.find("password") != std::string_view::npos) return {};
    query.remove_prefix(std::min(parameter.size() + 1, query.size()));
  }
  return {};
}

// What libpq says with the part at fault in quotes, and with other words in quotes before it, which would be cut out with it.
std::string in_other_words(std::string_view message) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"looking for matching \"]\"", "an IPv6 address needs its closing ]"},
      {"(expected \":\" or \"/\")",
       "behind the ] of an IPv6 address comes a : with the port, a / or nothing"},
      {"missing key/value separator \"=\"", "a parameter of the URL has no = and value"},
      {"extra key/value separator \"=\"", "a parameter of the URL has a second =: percent-encode it (%3D)"},
      {"missing \"=\" after", "a keyword has no = and value"}};
  for (const auto& [theirs, ours] : kWords)
    if (message.starts_with(theirs) || message.substr(0, message.find(": \"")).find(theirs) != message.npos)
      return std::string(ours);
  return {};
}

std::string why_not_parsed(const std::string& text, const char* message) {
  const std::vector<std::string> known = known_keywords();
  std::string unknown = unknown_parameter(text, known);
  if (unknown.empty()) unknown = unknown_keyword(text, known);
  if (std::string words = in_other_words(message == nullptr ? "" : message);
      unknown.empty() && !words.empty())
    return words;
  if (unknown.empty()) return without_quotes(message == nullptr ? "out of memory" : message);
  const std::string meant = nearest(unknown, known);
  return "libpq knows no parameter " + unknown + (meant.empty() ? "" : ", did you mean " + meant + "?");
}

Keywords given_in(const std::string& text) {
  refuse_other_schemes(text);
  refuse_bare_signs(text);
  char* message = nullptr;
  const OptionList parsed(PQconninfoParse(text.c_str(), &message));
  const std::unique_ptr<char, void (*)(void*)> owned(message, PQfreemem);
  if (!parsed)
    throw std::invalid_argument("the connection string cannot be parsed: " + why_not_parsed(text, message));
  return keywords_of(parsed);
}

// libpq tells what it would use only of a connection that was begun. With a word that it does not know for one
// setting the attempt ends before it reaches for the network, all others being known and, if they stand before
// that setting in libpq's own order, found right.
Attempt attempt(Keywords keywords, const std::string& spoilt) {
  keywords[spoilt] = kNoWord;
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (const auto& [name, value] : keywords) {
    names.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  Attempt begun(PQconnectStartParams(names.data(), values.data(), 0));
  if (!begun) throw std::bad_alloc();
  return begun;
}

// What libpq takes for an empty part of the ports, whatever PGPORT says.
std::string default_port() {
  const OptionList options(PQconninfoParse("", nullptr));
  for (const PQconninfoOption* option = options.get(); option != nullptr && option->keyword != nullptr;
       ++option)
    if (std::string_view(option->keyword) == "port" && option->compiled != nullptr) return option->compiled;
  return {};
}

bool is_reached_by_network(const Keywords& server) {
  const std::string& host = server.at("host");
  return !server.at("hostaddr").empty() || !(host.empty() || host[0] == '/' || host[0] == '@');
}

// What looks like the name of a file and is none: the system's own root certificates, and a key in a device.
bool is_no_file(const TlsFile& file) {
  constexpr int kKnowsSystem = 160'000;
  return (file.keyword == "sslrootcert" && file.path == "system" && PQlibVersion() >= kKnowsSystem) ||
         (file.keyword == "sslkey" && file.path.find(':') != std::string::npos);
}

}  // namespace

std::string Conninfo::value(const std::string& keyword) const {
  const auto found = effective.find(keyword);
  return found == effective.end() ? std::string() : found->second;
}

Conninfo parse_conninfo(const std::string& text) {
  Conninfo conninfo;
  conninfo.given = given_in(text);
  refuse_unknown_words(conninfo.given);
  refuse_endless_service_file(conninfo.given);
  // target_session_attrs is the last that libpq looks at.
  const Attempt all = attempt(conninfo.given, "target_session_attrs");
  const std::string message = PQerrorMessage(all.get());
  if (message.find(kNoWord) == std::string::npos) refuse_as_libpq_does(conninfo.given, message);
  conninfo.effective = keywords_of(OptionList(PQconninfo(all.get())));
  const Attempt other = attempt(conninfo.given, "channel_binding");
  Keywords rest = keywords_of(OptionList(PQconninfo(other.get())));
  std::string& attrs = conninfo.effective["target_session_attrs"] = rest["target_session_attrs"];
  if (attrs == "any" && !conninfo.given.contains("target_session_attrs") &&
      std::getenv("PGTARGETSESSIONATTRS") == nullptr)
    conninfo.effective.erase("target_session_attrs");  // libpq's own default
  for (const char* secret :
       {"password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret"})
    conninfo.effective.erase(secret);
  refuse_strings_for_names(conninfo);
  refuse_impossible(conninfo);
  return conninfo;
}

std::optional<Variable> variable_behind(const Keywords& given, const std::string& keyword) {
  // A service goes over the environment.
  if (given.contains(keyword) || (keyword != "service" && names_service(given))) return std::nullopt;
  const OptionList options(PQconninfoParse("", nullptr));
  for (const PQconninfoOption* option = options.get(); option != nullptr && option->keyword != nullptr;
       ++option) {
    if (option->keyword != keyword || option->envvar == nullptr) continue;
    if (const char* const value = std::getenv(option->envvar); value != nullptr && *value != '\0')
      return Variable{option->envvar, value};
  }
  return std::nullopt;
}

std::vector<TlsFile> tls_files(const Conninfo& conninfo) {
  std::vector<TlsFile> files;
  if (conninfo.value("sslmode") == "disable" ||
      std::ranges::none_of(servers_of(conninfo), is_reached_by_network))
    return files;
  for (const char* keyword : {"sslrootcert", "sslcert", "sslkey"}) {
    TlsFile file{keyword, conninfo.value(keyword)};
    if (!file.path.empty() && !is_no_file(file)) files.push_back(std::move(file));
  }
  return files;
}

bool is_open_to_others(const std::string& key) {
  struct stat file {};
  if (::stat(key.c_str(), &file) != 0) return false;
  return (file.st_mode & (file.st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO)) != 0;
}

bool wants_tls(const Conninfo& conninfo) {
  const std::string mode = conninfo.value("sslmode");
  return mode == "require" || mode == "verify-ca" || mode == "verify-full";
}

std::vector<Keywords> servers_of(const Conninfo& conninfo) {
  const auto hosts = split(conninfo.value("host"));
  const auto addresses = split(conninfo.value("hostaddr"));
  const auto ports = split(conninfo.value("port"));
  const auto one_of = [](const std::vector<std::string>& list, std::size_t i) {
    return list.size() > 1 ? list.at(i) : list.front();
  };
  std::vector<Keywords> servers;
  for (std::size_t i = 0; i < std::max(hosts.size(), addresses.size()); ++i) {
    Keywords server = conninfo.given;
    server["host"] = one_of(hosts, i);
    server["hostaddr"] = one_of(addresses, i);
    server["port"] = one_of(ports, i);
    if (server["port"].empty()) server["port"] = default_port();
    servers.push_back(std::move(server));
  }
  return servers;
}

}  // namespace ff::pg
