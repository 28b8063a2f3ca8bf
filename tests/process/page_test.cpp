// The status page of a running daemon.
#include <catch2/catch.hpp>

#include "support/database.hpp"
#include "support/http_exchange.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"
#include "support/well_formed.hpp"

using namespace ff;
using namespace ff::test;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kConfig =
    "recovery_grace: 0s\nreconcilers: {lease_expiry: {interval: 50ms}, budget_reset: {enabled: false}}\n";

/// A lapsed lease whose row fails with an error that quotes markup, and has a secret in its DETAIL.
Uuid insert_poisoned(pg::Connection& db) {
  const Uuid id = insert_core(db, {.partition = {3}, .policy = max_retries(3)});
  db.execute("UPDATE ff_exec_core SET payload = 'geheim', result = 'geheim'");
  insert_attempt(db, {.partition = {3}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  db.execute_script(
      "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN RAISE EXCEPTION '<script>alert(1)</script>' USING DETAIL = 'geheim', ERRCODE = '22012'; "
      "END$$;"
      "CREATE TRIGGER poison BEFORE UPDATE ON ff_attempt FOR EACH ROW EXECUTE FUNCTION poison()");
  return id;
}

std::string ask(unsigned short port, const std::string& method, const std::string& path) {
  Client client(port);
  client.send(method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  return client.reply(method != "HEAD");
}

}  // namespace

TEST_CASE(
    "a daemon has a page that is well-formed, says what is wrong and what to paste, and nothing of the "
    "rows") {
  const Database database;
  auto db = database.connect();
  const std::string execution = "{fp:3}:" + to_string(insert_poisoned(db));
  RunningDaemon daemon({.conninfo = database.conninfo() + " password=geheim", .config = kConfig});
  std::string page;
  REQUIRE(wait_until([&] {
    page = daemon.get("/").body;
    return page.find("in quarantine") != std::string::npos && page.find("256 of 256") != std::string::npos;
  }));
  CHECK(malformed(page).empty());
  CHECK_THAT(page, Contains("lease_expiry: 1 row is in quarantine") && Contains("SQLSTATE 22012") &&
                       Contains("explain &#39;" + execution + "&#39;") &&
                       Contains("quarantine --url http://127.0.0.1:" + std::to_string(daemon.port()) +
                                " --config &#39;/") &&
                       Contains("</span> off<") && Contains("recovery_grace: 0s"));
  CHECK_THAT(page, !Contains("geheim") && !Contains("<script") && Contains("&lt;script&gt;"));
  CHECK(daemon.get("/live").body.find("http-equiv=\"refresh\"") != std::string::npos);

  // A reload that is refused is not over with the log line.
  daemon.rewrite_config("threads: many\n");
  daemon.process().signal(SIGHUP);
  CHECK(wait_until(
      [&] { return daemon.get("/").body.find("refused at the last reload") != std::string::npos; }));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a page is answered without a database, to GET and HEAD alone, and kept by nobody") {
  RunningDaemon daemon({.conninfo = "host=127.0.0.1 port=1 dbname=flowfabric password=geheim"});
  REQUIRE(
      wait_until([&] { return daemon.get("/").body.find("Not ready: unreachable") != std::string::npos; }));
  const std::string page = ask(daemon.port(), "GET", "/");
  const std::string header = ask(daemon.port(), "HEAD", "/");
  for (const std::string& answer : {page, header})
    CHECK_THAT(answer, Contains("HTTP/1.1 200 OK") &&
                           Contains("Content-Type: text/html; charset=utf-8\r\n") &&
                           Contains("Cache-Control: no-store\r\n") &&
                           Contains("Content-Security-Policy: default-src 'none'; style-src 'nonce-"));
  CHECK_THAT(header, !Contains("<html"));
  CHECK_THAT(page, Contains("<html") && !Contains("geheim"));
  CHECK_THAT(ask(daemon.port(), "POST", "/"), Contains("405"));
}
