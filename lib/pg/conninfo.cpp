#include "pg/conninfo.hpp"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "base/nearest.hpp"
#include "base/printable.hpp"
#include "base/small_file.hpp"
#include "base/text.hpp"
#include "base/url_hosts.hpp"
#include "pg/connection.hpp"

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

// An empty part counts, at the end as well: of "h1:5433,h2" the ports are "5433,".
std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

// What libpq takes for an empty part of the ports, whatever PGPORT says.
std::string default_port() {
  const OptionList options(PQconninfoParse("", nullptr));
  for (const PQconninfoOption* option = options.get(); option != nullptr && option->keyword != nullptr;
       ++option)
    if (std::string_view(option->keyword) == "port" && option->compiled != nullptr) return option->compiled;
  return {};
}

// All that libpq wants as whole numbers, but for the port.
constexpr const char* kNumbers[] = {"connect_timeout",     "keepalives",       "keepalives_idle",
                                    "keepalives_interval", "keepalives_count", "tcp_user_timeout"};

// As libpq reads it: blanks around it, and a plus, are no fault.
bool is_number(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\r\f\v";
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  text.remove_suffix(text.size() - (text.find_last_not_of(kBlank) + 1));
  if (text.starts_with('+')) text.remove_prefix(1);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

/// A keyword of which libpq takes certain words only; newer versions may take more of other keywords.
struct Words {
  std::string_view keyword;
  std::vector<std::string_view> allowed;
};
const std::vector<Words>& all_words() {
  static const std::vector<Words> words{
      {"sslmode", {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}},
      {"channel_binding", {"disable", "prefer", "require"}},
      {"gssencmode", {"disable", "prefer", "require"}},
      {"target_session_attrs", {"read-write", "primary", "any", "read-only", "standby", "prefer-standby"}}};
  return words;
}

// Before libpq does, who does not say which. The value is not shown: it may be the end of a password.
void refuse_unknown_words(const Keywords& given) {
  for (const auto& [keyword, allowed] : all_words()) {
    const auto its = given.find(std::string(keyword));
    if (its == given.end() || its->second.empty() || std::ranges::find(allowed, its->second) != allowed.end())
      continue;
    std::string list;
    for (const std::string_view word : allowed) list.append(list.empty() ? "" : ", ").append(word);
    throw std::invalid_argument(std::string(keyword) + " has a value that it cannot have (allowed: " + list +
                                ')');
  }
}

// libpq would read a pipe or a device for ever.
void refuse_endless_service_file(const Keywords& given) {
  if (!given.contains("service") && std::getenv("PGSERVICE") == nullptr) return;
  const char* const named = std::getenv("PGSERVICEFILE");
  const char* const home = std::getenv("HOME");
  const std::string path = named != nullptr  ? named
                           : home != nullptr ? home + std::string("/.pg_service.conf")
                                             : "";
  if (is_special_file(path))
    throw std::invalid_argument("the service file " + printable(path) +
                                " is a pipe or a device (allowed: a file)");
}

// A whole connection string where a name belongs, from PGDATABASE for instance: libpq would take all of it for the name, and a
// name is shown.
void refuse_strings_for_names(const Conninfo& conninfo) {
  for (const char* name : {"dbname", "host", "user"}) {
    const std::string value = conninfo.value(name);
    const auto password = value.find("password");
    const bool has_password = password != std::string::npos && value.find('=', password) != std::string::npos;
    if (has_password || value.find("://") != std::string::npos)
      throw std::invalid_argument(std::string(name) +
                                  " is a connection string of its own, and here only a name can stand");
  }
}

// libpq notices these only when it connects, or never where it has another host to try.
void refuse_impossible(const Conninfo& conninfo) {
  for (const char* name : kNumbers)
    if (const std::string value = conninfo.value(name); !value.empty() && !is_number(value))
      throw std::invalid_argument(std::string(name) + " is a whole number, and here is something else");
  for (const std::string& port : split(conninfo.value("port"))) {
    int number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    const bool possible =
        error == std::errc{} && end == port.data() + port.size() && number >= 1 && number <= 65'535;
    // Not shown, because it may be the beginning of a password with a bare "/" and a "?" behind it.
    if (!port.empty() && !possible)
      throw std::invalid_argument("port is no number that a port can have (allowed: 1 to 65535)");
  }
  for (const std::string& address : split(conninfo.value("hostaddr"))) {
    unsigned char bytes[sizeof(in6_addr)];
    if (!address.empty() && inet_pton(AF_INET, address.c_str(), bytes) != 1 &&
        inet_pton(AF_INET6, address.substr(0, address.find('%')).c_str(), bytes) != 1)
      throw std::invalid_argument("hostaddr is an address, not a name: write host=" + printable(address));
  }
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
  if (message.find(kNoWord) == std::string::npos)
    throw std::invalid_argument("the connection string cannot be used: " + printable(message));
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
