// What the server answers to what it is asked.
#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/http_exchange.hpp"
#include "support/log_capture.hpp"
#include "support/manual_clock.hpp"

using namespace ff::test;
using namespace std::chrono_literals;

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
  client.send("HEAD /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
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

TEST_CASE("on loopback a name that anybody may point there is refused, an address and localhost are not") {
  const std::string at = GENERATE("127.0.0.1", "::ffff:127.0.0.1");
  std::optional<RunningServer> server;
  try {
    server.emplace(ff::daemon::HttpLimits{}, nullptr, some_routes(), at);
  } catch (const std::exception& error) {
    if (at == "127.0.0.1") throw;
    WARN("not tried on " << at << ": " << error.what());  // a machine without IPv6
    return;
  }
  Client client(server->port());
  const auto called = [&](const std::string& host) {
    return status_of(client.ask("GET /livez HTTP/1.1\r\nHost: " + host + "\r\n\r\n"));
  };
  for (const std::string host :
       {"127.0.0.1", "127.0.0.1:9464", "localhost", "LocalHost:80", "[::1]:9464", "[::1]"}) {
    INFO(host);
    CHECK(called(host) == 200);
  }
  for (const std::string host : {"evil.example", "evil.example:9464", "localhost.evil.example",
                                 "127.0.0.1.evil.example", "", "[evil.example]", "[::1].evil.example"}) {
    INFO(host);
    CHECK(called(host) == 421);
  }
  CHECK(status_of(client.ask("GET /livez HTTP/1.1\r\n\r\n")) == 200);
  // As a proxy is asked: then the name in the target is who is called, whatever the Host says.
  const auto asked = [&](const std::string& target, const std::string& host = "localhost") {
    return status_of(client.ask("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"));
  };
  CHECK(asked("http://127.0.0.1:9464/livez") == 200);
  CHECK(asked("HTTP://localhost/livez?x=1", "evil.example") == 200);
  CHECK(asked("http://localhost") == asked("/"));
  CHECK(asked("http://evil.example/livez") == 421);
  CHECK(asked("http:///livez") == 421);
  CHECK(asked("http://127.0.0.1@evil.example/livez") == 421);
  CHECK(asked("https://127.0.0.1/livez") == 404);
}

TEST_CASE("any other method is a 405 that says which are allowed") {
  const RunningServer server;
  Client client(server.port());
  for (const std::string method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"}) {
    INFO(method);
    const auto reply =
        client.ask(method + " /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi");
    CHECK(status_of(reply) == 405);
    CHECK(reply.find("\r\nAllow: GET, HEAD\r\n") != std::string::npos);
  }
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
  const LogCapture log;
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
  CHECK(log.lines() == std::vector<std::string>{"error HTTP: /broken failed: out of luck",
                                                "error HTTP: /odd failed: invalid status-code"});
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
  CHECK(server.alive());
}

TEST_CASE("what is kept for a while is made once for all who ask meanwhile, over whatever connection") {
  ManualClock clock;
  std::atomic<int> made = 0;
  const auto count = [&made](ff::Milliseconds kept_for) {
    return [&made, kept_for] {
      return ff::daemon::HttpReply{200, "text/plain", std::to_string(++made), {}, kept_for};
    };
  };
  const RunningServer server({}, {}, {{"/kept", count(200ms)}, {"/fresh", count(0ms)}}, "127.0.0.1", clock);
  const auto told = [](const std::string& reply) {
    return std::stoi(reply.substr(reply.find("\r\n\r\n") + 4));
  };
  Client client(server.port());
  std::string flood;
  for (int i = 0; i < 300; ++i) flood += get("/kept");
  client.send(flood);
  for (int i = 0; i < 300; ++i) REQUIRE(told(client.reply()) == 1);

  for (int i = 0; i < 100; ++i) REQUIRE(told(Client(server.port()).ask(get("/kept"))) == 1);
  clock.advance(199ms);
  CHECK(told(Client(server.port()).ask(get("/kept"))) == 1);
  clock.advance(1ms);
  CHECK(told(Client(server.port()).ask(get("/kept"))) == 2);
  CHECK(told(client.ask(get("/kept"))) == 2);
  CHECK(told(client.ask(get("/fresh"))) == 3);
  CHECK(told(client.ask(get("/fresh"))) == 4);
}
