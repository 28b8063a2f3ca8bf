#pragma once

#include <chrono>
#include <filesystem>
#include <list>
#include <string>
#include <thread>

#include "pg/connect.hpp"
#include "pg/interrupt.hpp"

namespace ff::bench {

/// Stands between clients and a server on this machine, and makes the way longer: what comes from either side
/// is passed on in order, each part of it a fixed time after it came. However much is on its way, the delay
/// stays the same: latency grows, throughput does not shrink. It listens on a Unix socket in a directory of
/// its own, which goes with it.
class DelayingProxy {
 public:
  /// `server` is the directory of the server's Unix socket. Throws std::system_error.
  DelayingProxy(const std::filesystem::path& server, std::chrono::nanoseconds round_trip);
  /// Ends all connections.
  ~DelayingProxy();
  DelayingProxy(const DelayingProxy&) = delete;
  DelayingProxy& operator=(const DelayingProxy&) = delete;

  /// What has to be appended to the server's own conninfo to take the longer way.
  std::string detour() const;

 private:
  struct Directory {
    Directory();
    ~Directory();
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    std::filesystem::path path;
  };

  void listen();
  void connect(int client);

  const std::filesystem::path server_socket_;
  const std::chrono::nanoseconds one_way_;
  Directory directory_;
  pg::Interrupt stop_;
  std::list<std::jthread> connections_;  // of the listening thread, until it has ended
  int listening_ = -1;
  std::jthread listener_;
};

/// The median time of a statement that does nothing and its answer. Milliseconds.
double round_trip_ms(pg::Connection& connection);

}  // namespace ff::bench
