// What `check-db` advises where the database cannot be reached: the messages are libpq's and the server's.
#include <catch2/catch.hpp>

#include "check/ways.hpp"

using namespace ff;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::string way(const std::string& message, const std::string& sqlstate = {}) {
  return check::way_to_reach({pg::Error::Kind::connection, message, sqlstate}, 10);
}

}  // namespace

TEST_CASE("where our certificate or key is at fault, what to look at is sslcert and sslkey") {
  const auto* const message = GENERATE(
      "SSL error: tlsv1 alert unknown ca", "SSL error: sslv3 alert certificate expired",
      "SSL error: tlsv13 alert certificate required",
      "could not read certificate file \"c.crt\": bad end line",
      "could not open certificate file \"c.crt\": Permission denied",
      "certificate present, but not private key file \"c.key\"",
      "private key file \"c.key\" has group or world access; file must have permissions u=rw (0600) or less",
      "certificate does not match private key file \"c.key\": key values mismatch",
      "FATAL:  connection requires a valid client certificate",
      "FATAL:  certificate authentication failed for user \"ff\"");
  CAPTURE(message);
  CHECK_THAT(way(message), Contains("sslcert") && Contains("sslkey") && !Contains("sslrootcert") &&
                               Contains("openssl x509 -noout -dates -subject -in FILE"));
}

TEST_CASE("where the server's certificate is not trusted, what to look at is it and sslrootcert") {
  const auto* const message =
      GENERATE("SSL error: certificate verify failed", "root certificate file \"root.crt\" does not exist",
               "could not read root certificate file \"root.crt\": no certificate or crl found",
               "server certificate for \"db\" does not match host name \"127.0.0.1\"");
  CAPTURE(message);
  CHECK_THAT(way(message), Contains("sslrootcert") && !Contains("sslkey") &&
                               Contains("openssl x509 -noout -dates -subject -in FILE"));
}

TEST_CASE("where no certificate is at fault, what to look at is the server or the password") {
  CHECK_THAT(way("connection refused"), Contains("that the server runs"));
  CHECK_THAT(way("the password file cannot be read"), Contains("first line"));
}

TEST_CASE("where there are too many sessions, what to raise is the limit that the server names") {
  const std::string fatal = "connection to server on socket \"/run/x\" failed: FATAL:  53300: ";
  const auto session = [&](const std::string& message) { return way(fatal + message, "53300"); };
  CHECK_THAT(session("too many connections for role \"ff\""),
             StartsWith("ALTER ROLE \"ff\" CONNECTION LIMIT N;") && Contains("10 for each daemon") &&
                 !Contains("max_connections"));
  CHECK_THAT(session("too many connections for database \"too many connections for role \"x\""),
             StartsWith("ALTER DATABASE \"too many connections for role \"\"x\" CONNECTION LIMIT N;"));
  CHECK_THAT(session("too many connections for role \"a\"b\"; connection to server at \"h\" failed"),
             StartsWith("ALTER ROLE \"a\"\"b\" CONNECTION LIMIT N;"));
  CHECK_THAT(session("too many connections for role \"a\x1b\""),
             StartsWith("ALTER ROLE NAME CONNECTION LIMIT N;"));
  const auto* const of_server =
      GENERATE("sorry, too many clients already",
               "remaining connection slots are reserved for roles with the SUPERUSER attribute");
  CHECK_THAT(session(of_server), Contains("database.pool_size") &&
                                     Contains("ALTER SYSTEM SET max_connections = N;") &&
                                     Contains("10 for each daemon") && Contains("restart the server"));
}

TEST_CASE("where a pooler keeps no session for a transaction, what to set is its pool_mode") {
  CHECK_THAT(
      way("db:6432 is a pooler that keeps no session for the length of a transaction: for this database "
          "it needs pool_mode = session or transaction (…)"),
      Contains("pool_mode = transaction") && !Contains("pg_hba.conf"));
}
