#pragma once

#include <string>

namespace ff::daemon {

/// Of a URL: "127.0.0.1:9464", "[::1]:9464".
inline std::string authority(const std::string& host, unsigned short port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace ff::daemon
