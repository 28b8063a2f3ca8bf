// How the server treats its connections: how many, how long, and how they end.
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "http_server.hpp"
#include "support/http_exchange.hpp"
#include "support/log_capture.hpp"

using namespace ff::test;
using namespace std::chrono_literals;
using ff::daemon::http_get_status;
using ff::daemon::HttpLimits;
using ff::daemon::HttpServer;

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

TEST_CASE("without free descriptors the server waits, says so once, and goes on when there are some") {
  const LogCapture log;
  // The undefined-behaviour sanitizer wants a descriptor when it meets a type for the first time, those of the
  // log as well.
  spdlog::error("all is ready for the {} line", "first");
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
  CHECK(log.lines() ==
        std::vector<std::string>{"error all is ready for the first line",
                                 "error HTTP: cannot accept connections: Too many open files"});
}

TEST_CASE("with all places taken, whoever has waited longest for an answer makes place for who comes") {
  const LogCapture log;
  HttpLimits limits;
  limits.connections = 2;
  std::atomic<int> displaced = 0;
  const RunningServer server(limits, [&displaced] { ++displaced; });
  Client first(server.port());
  REQUIRE(status_of(first.ask(get("/livez"))) == 200);
  Client second(server.port());
  second.send("GET /li");  // has waited since before the first was answered again
  REQUIRE(status_of(first.ask(get("/livez"))) == 200);
  Client third(server.port());
  CHECK(status_of(third.ask(get("/livez"))) == 200);
  CHECK(second.closed_by_server());
  CHECK(status_of(first.ask(get("/livez"))) == 200);
  CHECK(displaced == 1);
  CHECK(log.lines() ==
        std::vector<std::string>{
            "warning HTTP: all 2 places are taken; the connection that has waited longest for an "
            "answer is closed"});
}

TEST_CASE("no reply is made for a connection that has been closed to make place for another") {
  const LogCapture log;
  HttpLimits limits;
  limits.connections = 2;
  std::promise<void> held;
  std::promise<void> released;
  std::atomic<int> made = 0;
  const RunningServer server(limits, {},
                             {{"/slow",
                               [&] {
                                 held.set_value();
                                 released.get_future().wait();
                                 return ff::daemon::HttpReply{200, "text/plain", "done"};
                               }},
                              {"/counted", [&] {
                                 ++made;
                                 return ff::daemon::HttpReply{200, "text/plain", "counted"};
                               }}});
  Client first(server.port());
  first.send(get("/slow"));
  held.get_future().wait();
  std::vector<std::unique_ptr<Client>> burst;  // have all asked before any of them can be let in
  for (int i = 0; i < 50; ++i) {
    burst.push_back(std::make_unique<Client>(server.port()));
    burst.back()->send(get("/counted"));
  }
  released.set_value();
  int answered = 0;
  for (const auto& client : burst) answered += status_of(client->reply()) == 200 ? 1 : 0;
  CHECK(answered > 0);
  CHECK(made == answered);
}

TEST_CASE("a probe is answered at once beside a thousand clients that never say a word") {
  rlimit descriptors{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &descriptors) == 0);
  descriptors.rlim_cur = std::min<rlim_t>(descriptors.rlim_max, 4096);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &descriptors) == 0);
  const LogCapture log;
  const RunningServer server;
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 1000; ++i) silent.push_back(std::make_unique<Client>(server.port()));
  Client probe(server.port());
  for (int i = 0; i < 10; ++i) silent.push_back(std::make_unique<Client>(server.port()));
  probe.send(get("/livez"));
  CHECK(probe.hears_within(1s));
  CHECK(log.lines().size() == 1);
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
  const RunningServer server(limits);
  Client deaf(server.port());
  deaf.send(get("/large"));
  std::this_thread::sleep_for(5 * limits.idle);
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
}

TEST_CASE("a name that nobody knows is no answer, and the name is said") {
  CHECK_THROWS_WITH(http_get_status("name.invalid", 80, "/", 1s),
                    Catch::StartsWith("no answer from http://name.invalid:80/: "));
}

TEST_CASE("asking a server that never answers ends with the timeout") {
  boost::asio::io_context nobody_runs_this;
  const HttpServer mute(nobody_runs_this, "127.0.0.1", 0, some_routes());
  CHECK_THROWS_WITH(http_get_status("127.0.0.1", mute.port(), "/livez", 100ms), Catch::Contains("timeout"));
}
