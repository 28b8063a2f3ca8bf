#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "http_server.hpp"

/// Both ends of an HTTP connection.
namespace ff::test {

/// /livez is 200 and "alive\n", /readyz is 503 and JSON, /large has more to say than a socket takes at once,
/// /broken throws "out of luck", and /odd has a status that does not exist.
daemon::Routes some_routes();

/// A server of these routes, or of others, on a free port of 127.0.0.1, run by a thread of its own.
class RunningServer {
 public:
  explicit RunningServer(const daemon::Routes& routes) : RunningServer(daemon::HttpLimits{}, {}, routes) {}
  explicit RunningServer(const daemon::HttpLimits& limits = {}, std::function<void()> on_displaced = {},
                         const daemon::Routes& routes = some_routes(), const std::string& host = "127.0.0.1",
                         const Clock& clock = Clock::system());
  ~RunningServer() { stop(); }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  unsigned short port() const { return server_.port(); }
  /// Whether /livez answers a new client.
  bool alive() const;

  /// Returns when nothing of the server is left on the io_context.
  void stop();

 private:
  boost::asio::io_context io_{1};
  daemon::HttpServer server_;
  std::thread thread_;
};

/// A client that sends what it is told to. It waits ten seconds for bytes, then it takes the server for silent.
class Client {
 public:
  /// Connects to 127.0.0.1; fails the test when it cannot.
  explicit Client(unsigned short port);
  ~Client() { end(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// As far as the server takes it.
  void send(const std::string& bytes);
  void send_no_more();
  void end();
  /// Ends with a reset instead of an orderly close.
  void reset();
  bool hears_within(std::chrono::milliseconds time);

  /// Everything up to the server's closing; the text "timed out" when it does not close.
  std::string rest();
  bool closed_by_server() { return rest().empty(); }

  /// One reply: header, blank line and body. When there is none, a text that says so.
  std::string reply(bool with_body = true);
  std::string ask(const std::string& request);

 private:
  bool receive();

  int fd_;
  bool timed_out_ = false;
  std::string received_;
};

/// A request; `more` is further lines of its header, each ended by "\r\n".
std::string get(const std::string& target, const std::string& more = "");
/// 0 when it is no reply.
int status_of(const std::string& reply);

}  // namespace ff::test
