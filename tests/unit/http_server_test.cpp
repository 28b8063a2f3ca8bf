#include "http_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <cerrno>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using ff::daemon::http_get_status;
using ff::daemon::HttpLimits;
using ff::daemon::HttpReply;
using ff::daemon::HttpServer;
using ff::daemon::Routes;

Routes some_routes() {
  return {{"/livez",
           [] {
             return HttpReply{200, "text/plain; charset=utf-8", "alive\n"};
           }},
          {"/readyz",
           [] {
             return HttpReply{503, "application/json", R"({"ready":false})"};
           }},
          {"/large",
           [] {
             return HttpReply{200, "text/plain", std::string(16'000'000, 'x')};
           }},
          {"/broken", []() -> HttpReply { throw std::runtime_error("out of luck"); }},
          {"/odd", [] {
             return HttpReply{12345, "text/plain", ""};
           }}};
}

/// A server on a free port of 127.0.0.1, run by a thread of its own.
class RunningServer {
 public:
  explicit RunningServer(const HttpLimits& limits = {})
      : server_(io_, "127.0.0.1", 0, some_routes(), limits), thread_([this] { io_.run(); }) {}
  ~RunningServer() { stop(); }
  unsigned short port() const { return server_.port(); }

  /// Returns when nothing of the server is left on the io_context.
  void stop() {
    if (!thread_.joinable()) return;
    boost::asio::post(io_, [this] { server_.stop(); });
    thread_.join();
  }

 private:
  boost::asio::io_context io_{1};
  HttpServer server_;
  std::thread thread_;
};

/// A client that sends what it is told to.
class Client {
 public:
  explicit Client(unsigned short port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{10, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  Client(Client&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Client() { end(); }

  /// As far as the server takes it.
  void send(const std::string& bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const auto n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
  }
  void send_no_more() { shutdown(fd_, SHUT_WR); }
  void end() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void reset() {
    const linger at_once{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    end();
  }
  bool hears_within(std::chrono::milliseconds time) {
    pollfd wanted{fd_, POLLIN, 0};
    return poll(&wanted, 1, static_cast<int>(time.count())) > 0;
  }

  /// Everything up to the server's closing; the text "timed out" when it does not close.
  std::string rest() {
    while (receive()) {
    }
    return timed_out_ ? "timed out" : std::exchange(received_, "");
  }
  bool closed_by_server() { return rest() == ""; }

  /// One reply: header, blank line and body.
  std::string reply(bool with_body = true) {
    std::size_t end = 0;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos)
      if (!receive()) return "no reply: " + received_;
    const auto length = received_.find("Content-Length: ");
    std::size_t size = end + 4;
    if (with_body && length < end) size += std::stoul(received_.substr(length + 16));
    while (received_.size() < size)
      if (!receive()) return "cut short: " + received_;
    const auto one = received_.substr(0, size);
    received_.erase(0, size);
    return one;
  }
  std::string ask(const std::string& request) {
    send(request);
    return reply();
  }

 private:
  bool receive() {
    char part[65536];
    const auto n = recv(fd_, part, sizeof part, 0);
    if (n < 0) timed_out_ = errno == EAGAIN;
    if (n > 0) received_.append(part, static_cast<std::size_t>(n));
    return n > 0;
  }
  int fd_;
  bool timed_out_ = false;
  std::string received_;
};

std::string get(const std::string& target, const std::string& more = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: here\r\n" + more + "\r\n";
}
int status_of(const std::string& reply) {
  return reply.starts_with("HTTP/1.1 ") ? std::stoi(reply.substr(9, 3)) : 0;
}
/// Holds what is logged during its life.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_);
    sink->set_pattern("%v");
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("captured", std::move(sink)));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  std::string lines() const { return lines_.str(); }

 private:
  std::ostringstream lines_;
  const std::shared_ptr<spdlog::logger> before_;
};

bool alive(const RunningServer& server) {
  return http_get_status("127.0.0.1", server.port(), "/livez", 10s) == 200;
}

}  // namespace

TEST_CASE("a path answers with its route's status, type and body, and without naming the server") {
  const RunningServer server;
  Client client(server.port());
  CHECK(client.ask(get("/livez")) ==
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nalive\n");
  CHECK(client.ask(get("/readyz")) ==
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 15\r\nContent-Type: application/json\r\n\r\n"
        R"({"ready":false})");
}

TEST_CASE("HEAD gets the header of GET and no body") {
  const RunningServer server;
  Client client(server.port());
  client.send("HEAD /livez HTTP/1.1\r\nHost: here\r\n\r\n");
  CHECK(client.reply(false) ==
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n");
  CHECK(status_of(client.ask(get("/readyz"))) == 503);
}

TEST_CASE("a query string does not matter, an unknown path is a 404") {
  const RunningServer server;
  Client client(server.port());
  CHECK(status_of(client.ask(get("/livez?verbose=1&x=/y"))) == 200);
  for (const std::string path : {"/", "/livez/", "/LIVEZ", "/live", "livez", "*", "/../livez", "/?/livez"}) {
    INFO(path);
    CHECK(status_of(client.ask(get(path))) == 404);
  }
}

TEST_CASE("any other method is a 405 that says which are allowed") {
  const RunningServer server;
  Client client(server.port());
  for (const std::string method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"}) {
    INFO(method);
    const auto reply = client.ask(method + " /livez HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\nhi");
    CHECK(status_of(reply) == 405);
    CHECK(reply.find("\r\nAllow: GET, HEAD\r\n") != std::string::npos);
  }
}

TEST_CASE("a connection is kept for the next request unless the client wants otherwise") {
  const RunningServer server;
  Client keeping(server.port());
  for (int i = 0; i < 100; ++i) REQUIRE(status_of(keeping.ask(get("/livez"))) == 200);

  Client closing(server.port());
  CHECK(closing.ask(get("/livez", "Connection: close\r\n")).find("\r\nConnection: close\r\n") !=
        std::string::npos);
  closing.send_no_more();
  CHECK(closing.closed_by_server());

  Client old(server.port());
  old.send("GET /livez HTTP/1.0\r\n\r\n");
  CHECK(old.reply().ends_with("alive\n"));
  old.send_no_more();
  CHECK(old.closed_by_server());
}

TEST_CASE("pipelined requests are answered each and in order, bodies among them ignored") {
  const RunningServer server;
  Client client(server.port());
  std::string requests;
  for (int i = 0; i < 50; ++i)
    requests += get("/livez") + get("/readyz", "Content-Length: 14\r\n") + "GET / HTTP/1.1" +
                get("/nowhere", "Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n0\r\n\r\n";
  client.send(requests);
  for (int i = 0; i < 50; ++i) {
    REQUIRE(status_of(client.reply()) == 200);
    REQUIRE(status_of(client.reply()) == 503);
    REQUIRE(status_of(client.reply()) == 404);
  }
}

TEST_CASE("a request that arrives byte by byte is answered") {
  const RunningServer server;
  Client client(server.port());
  for (const char byte : get("/livez")) client.send(std::string(1, byte));
  CHECK(status_of(client.reply()) == 200);
}

TEST_CASE("a header within the limit is read, a much larger one is a 431 and ends the connection") {
  const RunningServer server;
  Client fitting(server.port());
  CHECK(status_of(fitting.ask(get("/livez", "X: " + std::string(8000, 'a') + "\r\n"))) == 200);
  CHECK(status_of(fitting.ask(get("/livez?" + std::string(8000, 'a')))) == 200);
  Client large(server.port());
  CHECK(status_of(large.ask(get("/livez", "X: " + std::string(16'384, 'a') + "\r\n"))) == 431);
  large.send_no_more();
  CHECK(large.closed_by_server());
  Client endless(server.port());
  CHECK(status_of(endless.ask("GET /" + std::string(100'000, 'a'))) == 431);
  Client piecemeal(server.port());
  piecemeal.send("GET /livez HTTP/1.1\r\n");
  for (int sent = 0; sent < 100'000 && !piecemeal.hears_within(0ms); sent += 250)
    piecemeal.send("Name: " + std::string(242, 'v') + "\r\n");
  CHECK(status_of(piecemeal.reply()) == 431);
}

TEST_CASE("a small body is ignored, a larger one is a 413 and ends the connection") {
  const RunningServer server;
  Client small(server.port());
  CHECK(status_of(small.ask(get("/livez", "Content-Length: 4096\r\n") + std::string(4096, 'b'))) == 200);
  CHECK(status_of(small.ask(get("/livez"))) == 200);

  for (const std::string framing : {"Content-Length: 4097", "Content-Length: 18446744073709551615"}) {
    INFO(framing);
    Client large(server.port());
    CHECK(status_of(large.ask(get("/livez", framing + "\r\n"))) == 413);
    large.send_no_more();
    CHECK(large.closed_by_server());
  }
  Client chunks(server.port());
  chunks.send(get("/livez", "Transfer-Encoding: chunked\r\n"));
  for (int i = 0; i < 3; ++i) chunks.send("800\r\n" + std::string(0x800, 'c') + "\r\n");
  CHECK(status_of(chunks.reply()) == 413);
  Client upload(server.port());
  CHECK(status_of(upload.ask(get("/livez", "Content-Length: 200000\r\n") + std::string(200'000, 'u'))) ==
        413);
}

TEST_CASE("a client that waits to be asked for its body is refused, not left waiting") {
  const RunningServer server;
  Client client(server.port());
  const auto reply = client.ask(get("/livez", "Expect: 100-continue\r\nContent-Length: 5\r\n"));
  CHECK(status_of(reply) == 417);
  CHECK(reply.find("\r\nConnection: close\r\n") != std::string::npos);
}

TEST_CASE("a handler that throws is a 500 without its reason, which is logged, and the connection goes on") {
  const CapturedLog log;
  {
    const RunningServer server;
    Client client(server.port());
    for (const std::string path : {"/broken", "/odd"}) {
      const auto reply = client.ask(get(path));
      CHECK(status_of(reply) == 500);
      CHECK(reply.find("luck") == std::string::npos);
    }
    CHECK(status_of(client.ask(get("/livez"))) == 200);
  }
  CHECK(log.lines() == "HTTP: /broken failed: out of luck\nHTTP: /odd failed: invalid status-code\n");
}

TEST_CASE("without free descriptors the server waits, says so once, and goes on when there are some") {
  const CapturedLog log;
  boost::asio::io_context io(1);
  const HttpServer server(io, "127.0.0.1", 0, some_routes());
  io.poll();
  Client client(server.port());
  client.send(get("/livez"));
  rlimit usual{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const int lowest_free = dup(0);
  close(lowest_free);
  rlimit none_free = usual;
  none_free.rlim_cur = static_cast<rlim_t>(lowest_free);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none_free) == 0);
  io.run_for(1200ms);  // long enough for a second attempt
  REQUIRE(setrlimit(RLIMIT_NOFILE, &usual) == 0);
  const bool too_early = client.hears_within(0ms);
  CHECK_FALSE(too_early);
  for (int i = 0; i < 100 && !client.hears_within(0ms); ++i) io.run_for(100ms);
  CHECK(status_of(client.reply()) == 200);
  CHECK(log.lines() == "HTTP: cannot accept connections: Too many open files\n");
}

TEST_CASE("with all places taken nobody is accepted until one is free, and replies give places back") {
  HttpLimits limits;
  limits.connections = 2;
  const RunningServer server(limits);
  Client first(server.port());
  REQUIRE(status_of(first.ask(get("/livez"))) == 200);
  Client second(server.port());
  // The second takes the last place, so its reply closes.
  REQUIRE(second.ask(get("/livez")).find("\r\nConnection: close\r\n") != std::string::npos);
  second.end();
  Client third(server.port());
  third.send("GET /li");  // keeps its place
  Client fourth(server.port());
  fourth.send(get("/livez"));
  const bool too_early = fourth.hears_within(200ms);
  CHECK_FALSE(too_early);
  first.end();
  CHECK(status_of(fourth.reply()) == 200);
}

TEST_CASE("a client that sends nothing, or too slowly, is closed after the idle time") {
  HttpLimits limits;
  limits.idle = 150ms;
  const RunningServer server(limits);
  Client silent(server.port());
  CHECK(silent.closed_by_server());

  Client kept(server.port());
  REQUIRE(status_of(kept.ask(get("/livez"))) == 200);
  CHECK(kept.closed_by_server());

  // Each byte comes well within the idle time; the whole does not.
  Client slow(server.port());
  bool closed = false;
  for (int i = 0; i < 100 && !closed; ++i) {
    slow.send(i == 0 ? "GET /livez HTTP/1.1\r\nX: " : "a");
    closed = slow.hears_within(20ms);
  }
  CHECK(closed);
  CHECK(slow.closed_by_server());
}

TEST_CASE("a client that does not read its replies is closed after the idle time") {
  HttpLimits limits;
  limits.idle = 150ms;
  limits.connections = 1;
  const RunningServer server(limits);
  Client deaf(server.port());
  deaf.send(get("/large"));
  // The one place is free again only when the server has given up.
  CHECK(alive(server));
  CHECK(deaf.reply().starts_with("cut short"));
}

TEST_CASE("a client that has ended its own side still gets its reply") {
  const RunningServer server;
  Client client(server.port());
  client.send(get("/livez"));
  client.send_no_more();
  CHECK(status_of(client.reply()) == 200);
  CHECK(client.closed_by_server());
}

TEST_CASE("malformed requests are a 400 and end the connection") {
  const RunningServer server;
  for (const std::string request :
       {"\x16\x03\x01\x02", "GET\r\n\r\n", "GET /livez HTTP/9.9\r\n\r\n",
        "GET /livez HTTP/1.1\r\nno colon\r\n\r\n", "GET /livez HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "GET /livez HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "GET /livez HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
        "GET /livez HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET /livez HTTP/1.1\r\nHost: cut"}) {
    INFO(request);
    Client client(server.port());
    client.send(request);
    client.send_no_more();
    CHECK(status_of(client.reply()) == 400);
    CHECK(client.closed_by_server());
  }
}

TEST_CASE("random bytes, resets and half requests from many clients leave the server working") {
  const RunningServer server;
  std::mt19937 random(20'240'229);
  for (int i = 0; i < 300; ++i) {
    Client client(server.port());
    std::string bytes = i % 3 == 0   ? get("/livez")
                        : i % 3 == 1 ? get("/large")
                                     : std::string(random() % 600, '\0');
    for (std::size_t change = i % 3 == 2 ? bytes.size() : random() % 4; change > 0 && !bytes.empty();
         --change)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    client.send(bytes);
    if (i % 2 == 0) client.reset();
  }
  CHECK(alive(server));
}

TEST_CASE("stopping closes the connections and frees the port") {
  RunningServer server;
  const auto port = server.port();
  Client idle(port);
  REQUIRE(status_of(idle.ask(get("/livez"))) == 200);
  Client busy(port);
  busy.send(get("/large"));
  REQUIRE(busy.hears_within(5s));
  server.stop();
  CHECK(idle.closed_by_server());
  CHECK_THROWS_WITH(http_get_status("127.0.0.1", port, "/livez", 5s), Catch::Contains("Connection refused"));
  boost::asio::io_context io;
  CHECK(HttpServer(io, "127.0.0.1", port, {}).port() == port);
}

TEST_CASE("an io_context that ends before its connections takes them along") {
  auto io = std::make_unique<boost::asio::io_context>(1);
  HttpLimits limits;
  limits.connections = 1;
  auto server = std::make_unique<HttpServer>(*io, "127.0.0.1", 0, some_routes(), limits);
  Client client(server->port());
  client.send("GET /livez");
  Client queued(server->port());
  io->run_for(50ms);
  server.reset();
  io.reset();
  CHECK(client.rest() != "timed out");
  CHECK(queued.rest() != "timed out");
}

TEST_CASE("an address that cannot be listened on is named with the reason") {
  boost::asio::io_context io;
  const HttpServer first(io, "localhost", 0, {});
  const auto port = std::to_string(first.port());
  CHECK_THROWS_WITH(HttpServer(io, "127.0.0.1", first.port(), {}),
                    "cannot listen on 127.0.0.1:" + port + ": Address already in use");
  CHECK_THROWS_WITH(HttpServer(io, "example.org", 80, {}),
                    "cannot listen on example.org:80: not an IPv4 or IPv6 address, nor localhost");
  CHECK_THROWS_WITH(HttpServer(io, "2001:db8::1", 80, {}),
                    Catch::StartsWith("cannot listen on [2001:db8::1]:80: "));
  CHECK_THROWS_AS(HttpServer(io, "", 80, {}), std::runtime_error);
}

TEST_CASE("asking once gives status and body, or says why there is no answer") {
  const RunningServer server;
  std::string body;
  CHECK(http_get_status("localhost", server.port(), "/readyz", 5s, &body) == 503);
  CHECK(body == R"({"ready":false})");
  CHECK(http_get_status("127.0.0.1", server.port(), "/nowhere", 5s) == 404);
  const auto too_large =
      "no answer from http://127.0.0.1:" + std::to_string(server.port()) + "/large: body limit exceeded";
  CHECK_THROWS_WITH(http_get_status("127.0.0.1", server.port(), "/large", 5s), too_large);
  CHECK_THROWS_WITH(http_get_status("example.org", 80, "/", 5s), Catch::Contains("nor localhost"));
}

TEST_CASE("asking a server that never answers ends with the timeout") {
  boost::asio::io_context nobody_runs_this;
  const HttpServer mute(nobody_runs_this, "127.0.0.1", 0, some_routes());
  CHECK_THROWS_WITH(http_get_status("127.0.0.1", mute.port(), "/livez", 100ms), Catch::Contains("timeout"));
}
