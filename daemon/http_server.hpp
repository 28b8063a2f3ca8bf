#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"

namespace ff::daemon {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< further ones, by name
  /// Whoever asks gets this same reply for so long.
  Milliseconds kept_for{0};
};

/// What answers a GET, by path ("/livez"); HEAD gets the same without the body. It runs on the server's
/// thread and holds up every other request meanwhile, however many there are: what takes long to make is kept for a moment
/// (HttpReply::kept_for). One that throws makes a 500 and a line in the log.
using Routes = std::map<std::string, std::function<HttpReply()>, std::less<>>;

/// What a client may take up.
struct HttpLimits {
  std::size_t connections = 64;
  /// A request header may be this long; a longer one is a 431, at less than twice the length at the latest.
  std::size_t header_bytes = 8'192;
  std::size_t body_bytes = 4'096;  ///< a request's body is read and ignored up to here; more is a 413
  /// For each of these: the wait for a request together with its arrival, and the sending of a reply. Then
  /// the connection is closed.
  Milliseconds idle{10'000};
};

/// A small HTTP/1.1 server with a fixed set of paths. Any method but GET and HEAD is a 405, any other path a
/// 404; what follows a `?` is ignored. One that listens on loopback answers 421 to a Host that is neither an address nor
/// localhost, so that no page on the web can read it under a name of its own. Connections are kept alive and requests may be pipelined; whatever a
/// client sends or does not send, it ends its own connection at most.
///
/// With all places for connections taken, who comes is let in and the connection that has waited longest for an
/// answer is closed: silent clients must not keep a probe out. (Answering 503 instead would tell whoever asks
/// /livez something untrue.)
///
/// Everything happens on the thread that runs the io_context, which has to be one only; all members are
/// called there, or while nothing runs it.
class HttpServer {
 public:
  /// Listens at once. `host`: an IPv4 or IPv6 address, or "localhost", which is 127.0.0.1; port 0: any free
  /// one. `on_displaced` hears of each connection that is closed to make place for another. Throws
  /// std::runtime_error with address and reason. The clock, by which replies are kept, must outlive this and whatever it
  /// leaves on the io_context.
  HttpServer(boost::asio::io_context& io, const std::string& host, unsigned short port, Routes routes,
             const HttpLimits& limits = {}, std::function<void()> on_displaced = {},
             const Clock& clock = Clock::system());
  /// Stops; the io_context must still be there.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// The port that is listened on.
  unsigned short port() const;

  /// Stops listening and closes every connection. May be called again.
  void stop();

 private:
  struct Impl;
  // Shared with the connections under way: they end, on the io_context, after stop() and so maybe after the
  // server.
  const std::shared_ptr<Impl> impl_;
};

/// Asks once, blocking, and returns the status of the answer; its body is stored where `body` is not null.
/// `host` is as for HttpServer, or a name, of which each address is tried. Throws std::runtime_error when there is no
/// complete answer (of at most 1 MiB) within the timeout.
int http_get_status(const std::string& host, unsigned short port, const std::string& path,
                    Milliseconds timeout, std::string* body = nullptr);

/// Where to ask a daemon that listens there: one that listens on every address is asked on this machine's own.
std::string reachable(const std::string& host);

}  // namespace ff::daemon
