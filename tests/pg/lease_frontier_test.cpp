// What may be delivered, by what was seen: no database needed.
#include "lease/frontier.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using lease::Frontier;

namespace {

constexpr SteadyTime at(int second) {
  return SteadyTime{} + std::chrono::seconds{second};
}

}  // namespace

TEST_CASE("an event is settled in the look that sees it when no transaction is running") {
  Frontier frontier;
  CHECK(frontier.settled() == 0);
  CHECK(frontier.marks_above() == 0);
  frontier.note({.newest = 7, .oldest_running = 100, .mark = 100}, at(0));
  CHECK(frontier.settled() == 7);
  CHECK(frontier.marks_above() == 7);
  CHECK_FALSE(frontier.held_since());
}

TEST_CASE("an event is settled when every transaction below its mark has ended, and not before") {
  Frontier frontier;
  frontier.note({.newest = 7, .oldest_running = 98, .mark = 100}, at(1));
  CHECK(frontier.settled() == 0);
  CHECK(frontier.held_since() == at(1));
  CHECK(frontier.marks_above() == 7);
  frontier.note({.newest = 7, .oldest_running = 99, .mark = {}}, at(2));
  CHECK(frontier.settled() == 0);
  CHECK(frontier.held_since() == at(1));
  frontier.note({.newest = 7, .oldest_running = 100, .mark = {}}, at(3));
  CHECK(frontier.settled() == 7);
  CHECK_FALSE(frontier.held_since());
}

TEST_CASE("events that are seen later wait for their own mark") {
  Frontier frontier;
  frontier.note({.newest = 7, .oldest_running = 98, .mark = 100}, at(1));
  frontier.note({.newest = 9, .oldest_running = 98, .mark = 110}, at(2));
  CHECK(frontier.marks_above() == 9);
  frontier.note({.newest = 9, .oldest_running = 105, .mark = {}}, at(3));
  CHECK(frontier.settled() == 7);
  CHECK(frontier.held_since() == at(2));
  frontier.note({.newest = 9, .oldest_running = 110, .mark = {}}, at(4));
  CHECK(frontier.settled() == 9);
}

TEST_CASE("what is settled stays so when the newest events are deleted") {
  Frontier frontier;
  frontier.note({.newest = 7, .oldest_running = 100, .mark = 100}, at(0));
  frontier.note({.newest = 3, .oldest_running = 101, .mark = {}}, at(1));
  CHECK(frontier.settled() == 7);
}

TEST_CASE("after a change of server the marks are taken anew") {
  Frontier frontier;
  frontier.note({.newest = 5, .oldest_running = 90, .mark = 90}, at(0));
  frontier.note({.newest = 7, .oldest_running = 98, .mark = 100}, at(1));
  frontier.forget_unsettled();
  CHECK(frontier.settled() == 5);
  CHECK(frontier.marks_above() == 5);
  CHECK_FALSE(frontier.held_since());
  // A server that lost transaction 100 in a crash: waiting for it might have been for ever.
  frontier.note({.newest = 7, .oldest_running = 95, .mark = 95}, at(2));
  CHECK(frontier.settled() == 7);
}

TEST_CASE("a long hold costs a bounded number of marks, and everything is settled after it") {
  Frontier frontier;
  std::int64_t marks = 0;
  std::int64_t newest = 0;
  for (int second = 0; second < 1000; ++second) {
    ++newest;
    const bool takes_mark = newest > frontier.marks_above();
    frontier.note({newest, 10, takes_mark ? std::optional<std::int64_t>(100 + marks++) : std::nullopt},
                  at(second));
  }
  CHECK(marks == 64);
  CHECK(frontier.held_since() == at(0));
  frontier.note({.newest = newest, .oldest_running = 500, .mark = {}}, at(1000));
  CHECK(frontier.settled() == 64);
  REQUIRE(newest > frontier.marks_above());
  frontier.note({.newest = newest, .oldest_running = 501, .mark = 501}, at(1001));
  CHECK(frontier.settled() == newest);
}
