#include "pg/conninfo_values.hpp"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>

#include "base/printable.hpp"
#include "base/small_file.hpp"
#include "base/text.hpp"

namespace ff::pg {
namespace {

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

// A variable may hold what was meant for another one.
bool may_hold_password(std::string_view value) {
  return value.find_first_of("=@") != std::string_view::npos;
}

[[noreturn]] void refuse(const Keywords& given, const std::string& keyword, const std::string& why) {
  if (const auto variable = variable_behind(given, keyword))
    throw VariableRefused(*variable, keyword + ' ' + why);
  throw std::invalid_argument(keyword + ' ' + why);
}

bool is_address(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), bytes) == 1;
}

// As no name does.
bool looks_like_address(std::string_view text) {
  return text.find(':') != std::string_view::npos ||
         text.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

VariableRefused::VariableRefused(const Variable& variable, const std::string& why)
    : std::invalid_argument(variable.name +
                            (may_hold_password(variable.value) ? "" : "=" + printable(variable.value)) +
                            ": " + why),
      name_(variable.name),
      value_(may_hold_password(variable.value) ? "" : variable.value),
      why_(why) {}

// The value is not shown where it is of the string: it may be the end of a password.
void refuse_unknown_words(const Keywords& given) {
  for (const auto& [keyword, allowed] : all_words()) {
    const std::string name(keyword);
    const auto its = given.find(name);
    const auto variable = variable_behind(given, name);
    const std::string value = its != given.end() ? its->second : variable ? variable->value : "";
    if (value.empty() || std::ranges::find(allowed, value) != allowed.end()) continue;
    std::string list;
    for (const std::string_view word : allowed) list.append(list.empty() ? "" : ", ").append(word);
    refuse(given, name, "has a value that it cannot have (allowed: " + list + ')');
  }
}

bool names_service(const Keywords& given) {
  return given.contains("service") || std::getenv("PGSERVICE") != nullptr;
}

void refuse_endless_service_file(const Keywords& given) {
  if (!names_service(given)) return;
  const char* const named = std::getenv("PGSERVICEFILE");
  const char* const home = std::getenv("HOME");
  const std::string path = named != nullptr  ? named
                           : home != nullptr ? home + std::string("/.pg_service.conf")
                                             : "";
  if (!is_special_file(path)) return;
  const std::string why = "the service file is a pipe or a device (allowed: a file)";
  if (named != nullptr) throw VariableRefused({"PGSERVICEFILE", path}, why);
  throw std::invalid_argument("the service file " + printable(path) +
                              " is a pipe or a device (allowed: a file)");
}

void refuse_as_libpq_does(const Keywords& given, const std::string& message) {
  const std::string why = "libpq refuses it: " + printable(message);
  if (const auto service = variable_behind(given, "service");
      service && message.find("service") != std::string::npos)
    throw VariableRefused(*service, why + " (allowed: a service of PGSERVICEFILE or ~/.pg_service.conf)");
  // "invalid ssl_min_protocol_version value: …", "could not match 3 port numbers to 2 hosts"
  for (const char* keyword : {"sslmode", "channel_binding", "gssencmode", "ssl_min_protocol_version",
                              "ssl_max_protocol_version", "port", "hostaddr"})
    if (const auto variable = variable_behind(given, keyword);
        variable && message.find(keyword) != std::string::npos)
      throw VariableRefused(*variable, why + " (allowed: what libpq takes for " + keyword + ')');
  throw std::invalid_argument("the connection string cannot be used: " + printable(message));
}

void refuse_strings_for_names(const Conninfo& conninfo) {
  // The user first, whose name is that of the database as well where none is given.
  for (const char* name : {"user", "dbname", "host"}) {
    const std::string value = conninfo.value(name);
    const auto password = value.find("password");
    const bool has_password = password != std::string::npos && value.find('=', password) != std::string::npos;
    if (has_password || value.find("://") != std::string::npos)
      refuse(conninfo.given, name, "is a connection string of its own, and here only a name can stand");
  }
}

void refuse_impossible(const Conninfo& conninfo) {
  for (const char* name : kNumbers)
    if (const std::string value = conninfo.value(name); !value.empty() && !is_number(value))
      refuse(conninfo.given, name, "is a whole number, and here is something else");
  for (const std::string& port : split(conninfo.value("port"))) {
    int number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    const bool possible =
        error == std::errc{} && end == port.data() + port.size() && number >= 1 && number <= 65'535;
    // Not shown where it is of the string, because it may be the beginning of a password with a bare "/" and a "?" behind it.
    if (!port.empty() && !possible)
      refuse(conninfo.given, "port", "is no number that a port can have (allowed: 1 to 65535)");
  }
  for (const std::string& address : split(conninfo.value("hostaddr"))) {
    if (address.empty() || is_address(address)) continue;
    if (looks_like_address(address))
      refuse(conninfo.given, "hostaddr",
             "is no valid address: " + printable(address) + " (allowed: an IPv4 or IPv6 address)");
    refuse(
        conninfo.given, "hostaddr",
        "is an address, not a name: write host=" + (may_hold_password(address) ? "..." : printable(address)));
  }
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

}  // namespace ff::pg
