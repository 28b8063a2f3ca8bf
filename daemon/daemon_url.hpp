#pragma once

#include <string>
#include <string_view>

namespace ff::daemon {

/// Where a running daemon is asked: a name, or an address without brackets.
struct DaemonUrl {
  std::string host;
  unsigned short port = 9464;

  friend bool operator==(const DaemonUrl&, const DaemonUrl&) = default;
};

/// "http://db1:9464/status", "http://db1", "[::1]:9464", "127.0.0.1": scheme, port and path may be left out. Nobody is
/// asked about the name. Throws UsageError, which names the option and repeats nothing of the text: somebody may have
/// put a password into it.
DaemonUrl parse_daemon_url(std::string_view option, std::string_view text);

}  // namespace ff::daemon
