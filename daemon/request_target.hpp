#pragma once

#include <optional>
#include <string_view>

namespace ff::daemon {

/// What an HTTP request asks for, and by which name it calls us. Both refer to what target_of() was given.
struct RequestTarget {
  std::string_view path;                 ///< with its query, if there is one
  std::optional<std::string_view> host;  ///< nothing: it does not say
};

/// From the request line and the Host field. A target as a proxy is asked, "http://host/path", names the host itself, and
/// the field counts for nothing then (RFC 9112, 3.2.2).
RequestTarget target_of(std::string_view target, std::optional<std::string_view> host_field);

/// Whether the host, with or without a port, is an IP address or localhost. A page of somebody else's, open in a browser on
/// this machine, can give its own name our address and then read what we answer (DNS rebinding): so who is asked on
/// loopback wants to be called by one of these.
bool is_address(std::string_view host);

}  // namespace ff::daemon
