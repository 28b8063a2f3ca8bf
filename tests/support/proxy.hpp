#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <list>
#include <string>
#include <thread>

#include "pg/connect.hpp"
#include "pg/interrupt.hpp"
#include "support/process.hpp"

namespace ff::test {

/// Stands between clients and a server on this machine, and makes the way longer: what comes from either side
/// is passed on in order, each part of it a fixed time after it came. However much is on its way, the delay
/// stays the same: latency grows, throughput does not shrink. Or it keeps what comes to itself: to both sides
/// that is a network on which nothing arrives, and nobody is told. It listens on a Unix socket in a directory
/// of its own, which goes with it.
class Proxy {
 public:
  /// `server` is the directory of the server's Unix socket. Throws std::system_error.
  explicit Proxy(const std::filesystem::path& server, std::chrono::nanoseconds round_trip = {});
  /// Ends all connections.
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  enum class Silence { none, to_server, to_client, both };
  /// From now on, for all connections. What was kept is passed on when the silence is over. From any thread.
  void silence(Silence which) { silence_ = which; }
  /// Of what comes from now on. From any thread.
  void delay(std::chrono::nanoseconds round_trip) { one_way_ = round_trip / 2; }

  /// The directory of its socket.
  const std::filesystem::path& directory() const { return directory_.path(); }
  /// What has to be appended to the server's own conninfo to take the longer way.
  std::string detour() const;

 private:
  void listen();
  void relay(int client, int server);
  void connect(int client);

  const std::filesystem::path server_socket_;
  std::atomic<std::chrono::nanoseconds> one_way_;
  std::atomic<Silence> silence_ = Silence::none;
  TemporaryDirectory directory_;
  pg::Interrupt stop_;
  std::list<std::jthread> connections_;  // of the listening thread, until it has ended
  int listening_ = -1;
  std::jthread listener_;
};

}  // namespace ff::test
