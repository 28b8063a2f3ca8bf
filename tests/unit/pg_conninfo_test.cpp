#include "pg/conninfo.hpp"

#include <catch2/catch.hpp>

using namespace ff::pg;

namespace {

/// "host:port" of each server, in their order.
std::vector<std::string> tried(const std::string& conninfo) {
  std::vector<std::string> places;
  for (const Keywords& server : servers_of(parse_conninfo(conninfo)))
    places.push_back(server.at("host") + ':' + server.at("port"));
  return places;
}

using Places = std::vector<std::string>;

}  // namespace

TEST_CASE("each host has its own port, and the usual one where none is given") {
  CHECK(tried("postgresql://h1:5433,h2:5434/d") == Places{"h1:5433", "h2:5434"});
  CHECK(tried("postgresql://h1:5433,h2/d") == Places{"h1:5433", "h2:5432"});
  CHECK(tried("postgresql://h1:5433,h2,h3/d") == Places{"h1:5433", "h2:5432", "h3:5432"});
  CHECK(tried("host=h1,h2,h3 port=5433,,") == Places{"h1:5433", "h2:5432", "h3:5432"});
}

TEST_CASE("one port is that of all hosts") {
  CHECK(tried("host=h1,h2 port=5433") == Places{"h1:5433", "h2:5433"});
}

TEST_CASE("a connection string where a name belongs is refused, and not shown") {
  const auto* const text =
      GENERATE("dbname=postgresql://bob:secret@db1/ff host=h", "host=postgresql://bob:secret@db1/ff",
               "host=h user=postgres://bob:secret@db1", "host=h dbname='user=bob password = secret'");
  CAPTURE(text);
  try {
    parse_conninfo(text);
    FAIL("it was taken");
  } catch (const std::invalid_argument& error) {
    CHECK_THAT(error.what(), Catch::Contains("is a connection string of its own"));
    CHECK_THAT(error.what(), !Catch::Contains("secret"));
  }
}
