// What `check-db` makes of a server's version: servers that are too old are not to be had for a test.
#include <catch2/catch.hpp>

#include "check/server.hpp"
#include "migrate/migrate.hpp"

using namespace ff;
using check::Verdict;

TEST_CASE("a server older than PostgreSQL 15 is a problem with a way out, for check-db and for the daemon") {
  const auto [number, version] = GENERATE(table<int, const char*>(
      {{90624, "9.6.24"}, {140000, "14.0"}, {140022, "14.22 (Debian 14.22-1)"}, {149999, "15beta2"}}));
  CAPTURE(number);
  const std::string sentence = "PostgreSQL " + std::string(version) + " is too old, 15 is needed";
  const check::Line line = check::server_version(number, version);
  CHECK(line.check == "server_version");
  CHECK(line.verdict == Verdict::problem);
  CHECK(line.text == sentence);
  CHECK(line.next == "upgrade the server to PostgreSQL 15 or newer");
  CHECK(migrate::too_old(number, version) == sentence);
}

TEST_CASE("PostgreSQL 15 and whatever is newer is not too old") {
  const auto [number, version] = GENERATE(table<int, const char*>(
      {{150000, "15.0"}, {150020, "15.20 (Debian 15.20-0)"}, {180004, "18.4"}, {990001, "99.1"}}));
  CAPTURE(number);
  const check::Line line = check::server_version(number, version);
  CHECK(line.verdict == Verdict::fine);
  CHECK(line.text == "PostgreSQL " + std::string(version));
  CHECK(line.next.empty());
  CHECK_FALSE(migrate::too_old(number, version));
}
