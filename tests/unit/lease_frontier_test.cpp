// What may be delivered, by what was seen.
#include "lease/frontier.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using lease::Frontier;
using lease::Writers;

namespace {

constexpr SteadyTime at(int second) {
  return SteadyTime{} + std::chrono::seconds{second};
}

void see(Frontier& frontier, std::int64_t newest, const Writers& writers, int second = 0) {
  frontier.note({{newest, 0}, writers}, at(second));
}

std::int64_t settled(const Frontier& frontier) {
  return frontier.settled().event_id;
}

}  // namespace

TEST_CASE("an event is settled in the poll that sees it when nobody writes") {
  Frontier frontier;
  CHECK(settled(frontier) == 0);
  CHECK_FALSE(frontier.asks(0));
  CHECK(frontier.asks(7));
  frontier.note({{7, 42}, Writers{}}, at(0));
  CHECK(settled(frontier) == 7);
  CHECK(frontier.settled().hash == 42);
  CHECK_FALSE(frontier.asks(7));
  CHECK_FALSE(frontier.held_since());
}

TEST_CASE("an event is settled when all have ended that wrote when it was first seen, and not before") {
  Frontier frontier;
  see(frontier, 7, {"3/1", "4/1"}, 1);
  CHECK(settled(frontier) == 0);
  CHECK(frontier.held_since() == at(1));
  CHECK(frontier.asks(7));
  CHECK_FALSE(frontier.is_new(7));
  see(frontier, 7, {"4/1"}, 2);
  CHECK(settled(frontier) == 0);
  CHECK(frontier.held_since() == at(1));
  CHECK(frontier.in_the_way() == Writers{"4/1"});
  see(frontier, 7, {}, 3);
  CHECK(settled(frontier) == 7);
  CHECK_FALSE(frontier.held_since());
}

TEST_CASE("an event does not wait for who came to write after it was seen") {
  Frontier frontier;
  see(frontier, 7, {"3/1"});
  see(frontier, 7, {"3/1", "4/1"});
  see(frontier, 7, {"3/2", "4/1"});
  CHECK(settled(frontier) == 7);
}

TEST_CASE("events that are seen later wait for their own writers") {
  Frontier frontier;
  see(frontier, 7, {"3/1"}, 1);
  see(frontier, 9, {"3/1", "4/1"}, 2);
  CHECK(frontier.awaited() == Writers{"3/1", "4/1"});
  see(frontier, 9, {"4/1"}, 3);
  CHECK(settled(frontier) == 7);
  CHECK(frontier.held_since() == at(2));
  see(frontier, 9, {}, 4);
  CHECK(settled(frontier) == 9);
}

TEST_CASE("a poll that did not ask for the writers settles nothing") {
  Frontier frontier;
  see(frontier, 7, {"3/1"});
  frontier.note({{8, 0}}, at(1));
  CHECK(settled(frontier) == 0);
  CHECK(frontier.is_new(8));
}

TEST_CASE("what is settled stays so when the newest events are deleted") {
  Frontier frontier;
  see(frontier, 7, {});
  CHECK_FALSE(frontier.asks(3));
  frontier.note({{3, 0}}, at(1));
  CHECK(settled(frontier) == 7);
}

TEST_CASE("after a change of server nobody is waited for by an old name") {
  Frontier frontier;
  see(frontier, 5, {});
  see(frontier, 7, {"3/1"}, 1);
  frontier.forget_unsettled();
  CHECK(settled(frontier) == 5);
  CHECK_FALSE(frontier.held_since());
  REQUIRE(frontier.asks(7));
  see(frontier, 7, {"4/1"}, 2);
  CHECK(settled(frontier) == 5);
  CHECK(frontier.held_since() == at(2));
  see(frontier, 7, {"3/1"}, 3);
  CHECK(settled(frontier) == 7);
}

TEST_CASE("a long hold is remembered in bounded space, and everything is settled after it") {
  Frontier frontier;
  for (int second = 1; second <= 1000; ++second) see(frontier, second, {"3/1"}, second);
  CHECK(frontier.held_since() == at(1));
  CHECK_FALSE(frontier.is_new(1001));
  see(frontier, 1000, {}, 1001);
  CHECK(settled(frontier) == 64);
  REQUIRE(frontier.asks(1000));
  see(frontier, 1000, {}, 1001);
  CHECK(settled(frontier) == 1000);
}
