// Which statements keep their place among those that are prepared, and which are sent as they are.
#include "pg/statement_cache.hpp"

#include <catch2/catch.hpp>

using ff::pg::StatementCache;
using Way = StatementCache::Way;

namespace {

/// A session that does as it is told, with four places.
struct Session {
  static constexpr std::size_t kMost = 4;

  StatementCache cache{kMost};

  /// Sends one, and gives back what others have the place of.
  Way send(const std::string& name) {
    const Way way = cache.send(name);
    while (const auto surplus = cache.surplus()) cache.erase(*surplus);
    return way;
  }
  /// Sends these, and tells how many the server did not plan.
  int round(int statements, const std::string& of = "s") {
    int known = 0;
    for (int i = 0; i < statements; ++i) known += send(of + std::to_string(i)) == Way::prepared ? 1 : 0;
    return known;
  }
};

}  // namespace

TEST_CASE("what is sent is prepared, and known the next time, while there are places") {
  Session session;
  CHECK(session.send("a") == Way::prepare);
  CHECK(session.send("a") == Way::prepared);
  CHECK(session.round(3) == 0);
  CHECK(session.round(3) == 3);
  CHECK(session.cache.contains("a"));
  CHECK(session.cache.size() == 4);
}

TEST_CASE("of more statements than there are places as many stay prepared, round after round") {
  Session session;
  session.round(6);
  for (int round = 0; round < 10; ++round) CHECK(session.round(6) == 4);
}

TEST_CASE("one that is sent twice as often as another takes its place") {
  Session session;
  session.round(4);
  CHECK(session.send("often") == Way::unprepared);
  CHECK(session.send("often") == Way::prepare);
  CHECK(session.send("often") == Way::prepared);
  CHECK_FALSE(session.cache.contains("s0"));
  CHECK(session.cache.size() == 4);
}

TEST_CASE("statements that are sent no more lose their places to the next ones") {
  Session session;
  session.round(4, "old");
  for (int round = 0; round < 3; ++round) session.round(4, "new");
  CHECK(session.round(4, "new") == 4);
}

TEST_CASE("what has a cheaper way gets no place before it has come often enough, and then like any other") {
  Session session;
  for (int time = 1; time < 5; ++time) CHECK(session.cache.send("a", 5) == Way::unprepared);
  CHECK(session.cache.send("a", 5) == Way::prepare);
  CHECK(session.cache.send("a", 5) == Way::prepared);
  session.round(3);
  for (int time = 1; time < 5; ++time) CHECK(session.cache.send("b", 5) == Way::unprepared);
  CHECK(session.send("b") == Way::prepare);  // in the place of one that comes no more
  CHECK_FALSE(session.cache.contains("a"));
}

TEST_CASE("how often it has come is not forgotten where it is sent the other way in between") {
  Session session;
  session.round(4);
  for (int time = 1; time < 5; ++time) CHECK(session.cache.send("a", 5) == Way::unprepared);
  session.round(4);
  CHECK(session.send("a") == Way::unprepared);
  CHECK(session.cache.send("a", 5) == Way::prepare);
}

TEST_CASE("of several that are prepared together each has to deserve a place of its own") {
  StatementCache cache(4);
  for (const char* name : {"a", "b", "c", "d", "b", "c", "d", "b", "c", "d", "e", "f", "b", "c", "d"})
    cache.send(name);
  CHECK(cache.send("e") == Way::prepare);
  CHECK(cache.send("f") == Way::unprepared);
  CHECK(cache.send("f") == Way::prepare);
  CHECK(cache.size() == 6);
  CHECK(cache.surplus() == "a");
  cache.erase("a");
  CHECK(cache.surplus() == "b");
  cache.erase("b");
  CHECK_FALSE(cache.surplus());
}

TEST_CASE("one that could not be prepared has no place") {
  Session session;
  session.send("a");
  session.cache.erase("a");
  CHECK(session.send("a") == Way::prepare);
}
