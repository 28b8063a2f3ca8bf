#include "daemon_url.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "arguments.hpp"
#include "base/text.hpp"

namespace ff::daemon {
namespace {

constexpr std::size_t kLongestName = 253;  // of the domain name system

[[noreturn]] void refuse(std::string_view option, std::string_view why) {
  throw UsageError(
      "--" + std::string(option) + ": " + std::string(why) +
      " (allowed: http://HOST:PORT, such as http://127.0.0.1:9464 or http://[::1]:9464; without a "
      "port it is 9464)");
}

std::string_view without_scheme(std::string_view option, std::string_view url) {
  constexpr std::string_view kEnd = "://";
  const std::size_t end = url.find(kEnd);
  if (end == std::string_view::npos) return url;
  std::string scheme(url.substr(0, end));
  std::ranges::transform(scheme, scheme.begin(), lower_case);
  if (scheme == "https") refuse(option, "a daemon has no TLS: write http, not https");
  if (scheme != "http") refuse(option, "the scheme is not http");
  return url.substr(end + kEnd.size());
}

bool is_host(const std::string& host, bool brackets) {
  if (in6_addr address{}; brackets) return ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
  return host.size() <= kLongestName &&
         std::ranges::all_of(host, [](char c) { return is_word_character(c) || c == '.' || c == '-'; });
}

unsigned short parse_port(std::string_view option, std::string_view text) {
  unsigned short port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0)
    refuse(option, "the port is no number from 1 to 65535");
  return port;
}

}  // namespace

DaemonUrl parse_daemon_url(std::string_view option, std::string_view text) {
  text = without_scheme(option, text);
  const std::string_view place = text.substr(0, text.find_first_of("/?#"));
  std::string_view path = text.substr(place.size());
  if (path.ends_with('/')) path.remove_suffix(1);
  if (!path.empty() && path != "/status") refuse(option, "a daemon has no such path");
  if (place.find('@') != std::string_view::npos) refuse(option, "a daemon asks for no user");
  const bool brackets = place.starts_with('[') && place.find(']') != std::string_view::npos;
  if (!brackets && std::ranges::count(place, ':') > 1) refuse(option, "an IPv6 address needs brackets");
  const std::size_t end = brackets ? place.find(']') + 1 : std::min(place.find(':'), place.size());
  const std::string_view port = place.substr(end);
  DaemonUrl url{std::string(brackets ? place.substr(1, end - 2) : place.substr(0, end))};
  if (url.host.empty()) refuse(option, "the host is missing");
  if (!is_host(url.host, brackets)) refuse(option, "no host name or address");
  if (!port.empty() && port.front() != ':') refuse(option, "no host name or address");
  if (!port.empty()) url.port = parse_port(option, port.substr(1));
  return url;
}

}  // namespace ff::daemon
