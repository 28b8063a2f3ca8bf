#include "request_target.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/beast/core/string.hpp>
#include <string>

namespace ff::daemon {
namespace {

bool equals_ignoring_case(std::string_view one, std::string_view other) {
  return boost::beast::iequals({one.data(), one.size()}, {other.data(), other.size()});
}

}  // namespace

RequestTarget target_of(std::string_view target, std::optional<std::string_view> host_field) {
  constexpr std::string_view kScheme = "http://";
  if (!equals_ignoring_case(target.substr(0, kScheme.size()), kScheme)) return {target, host_field};
  const std::size_t slash = std::min(target.find('/', kScheme.size()), target.size());
  const std::string_view path = target.substr(slash);
  return {path.empty() ? "/" : path, target.substr(kScheme.size(), slash - kScheme.size())};
}

bool is_address(std::string_view host) {
  const std::size_t port = host.starts_with('[') ? host.find("]:") : host.find(':');
  if (port != std::string_view::npos) host = host.substr(0, host[port] == ']' ? port + 1 : port);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (equals_ignoring_case(host, "localhost")) return true;
  boost::system::error_code error;
  boost::asio::ip::make_address(std::string(host), error);
  return !error;
}

}  // namespace ff::daemon
