#include "reconcile/upcoming.hpp"

#include <catch2/catch.hpp>

#include "reconcile/server_clock.hpp"

using namespace ff;
using namespace ff::reconcile;
using namespace std::chrono_literals;

namespace {

constexpr SteadyTime kStart = SteadyTime{} + std::chrono::hours{1000};

Candidate row(std::int64_t due_at, std::string name) {
  return {{{3}, {std::move(name)}}, unix_millis(due_at), false};
}

std::string names(const std::vector<Candidate>& rows) {
  std::string all;
  for (const Candidate& each : rows) all += each.key.columns.front();
  return all;
}

}  // namespace

TEST_CASE("an Upcoming gives out each row once, when its time has come, the oldest first") {
  Upcoming upcoming;
  CHECK_FALSE(upcoming.next());
  CHECK(upcoming.pop(unix_millis(1'000)).empty());
  upcoming.replace({row(300, "c"), row(100, "a"), row(200, "b")}, unix_millis(500));
  CHECK(upcoming.complete_until() == unix_millis(500));
  CHECK(upcoming.next() == unix_millis(100));
  CHECK(upcoming.pop(unix_millis(99)).empty());
  CHECK(names(upcoming.pop(unix_millis(200))) == "ab");
  CHECK(upcoming.next() == unix_millis(300));
  CHECK(upcoming.pop(unix_millis(200)).empty());
  CHECK(names(upcoming.pop(unix_millis(1'000))) == "c");
  CHECK_FALSE(upcoming.next());
}

TEST_CASE("a new scan replaces what an Upcoming held") {
  Upcoming upcoming;
  upcoming.replace({row(100, "a")}, unix_millis(500));
  upcoming.replace({row(200, "b")}, unix_millis(600));
  CHECK(names(upcoming.pop(unix_millis(1'000))) == "b");
  CHECK(upcoming.complete_until() == unix_millis(600));
  upcoming.replace({row(300, "c")}, unix_millis(700));
  upcoming.clear();
  CHECK_FALSE(upcoming.next());
}

TEST_CASE(
    "what is added to an Upcoming stands beside what it has, and what is known of a row is the newest") {
  Upcoming upcoming;
  upcoming.replace({row(300, "c"), row(100, "a")}, unix_millis(500));
  upcoming.add({row(200, "b"), row(400, "a")});
  CHECK(upcoming.complete_until() == unix_millis(500));
  CHECK(names(upcoming.pop(unix_millis(1'000))) == "bca");
}

TEST_CASE("an Upcoming keeps no more than what falls due first") {
  Upcoming upcoming;
  std::vector<Candidate> rows;
  for (std::size_t i = 0; i < Upcoming::kMost; ++i) rows.push_back(row(1'000, std::to_string(i)));
  upcoming.replace(rows, unix_millis(2'000));
  upcoming.add({row(999, "sooner"), row(1'001, "later")});
  CHECK(upcoming.complete_until() == unix_millis(1'000));
  const auto all = upcoming.pop();
  CHECK(all.size() == Upcoming::kMost);
  CHECK(names({all.front()}) == "sooner");
  CHECK(all.back().due_at == unix_millis(1'000));
}

TEST_CASE("the database's time is not known before it was heard, and never told ahead of it") {
  ServerClock time;
  CHECK_FALSE(time.at(kStart));
  // It said 5000 at some moment between the two: at the later one it is that late at least.
  time.learn({kStart, kStart + 40ms, unix_millis(5'000)});
  CHECK(time.at(kStart + 40ms) == unix_millis(5'000));
  CHECK(time.at(kStart + 140ms) == unix_millis(5'100));
  CHECK(time.at(kStart + 140ms + 999us) == unix_millis(5'100));
  CHECK(time.at(kStart) == unix_millis(4'960));
}

TEST_CASE("the quickest answer of the last minute is the one that counts") {
  ServerClock time;
  time.learn({kStart, kStart + 10ms, unix_millis(5'000)});
  time.learn({kStart + 20ms, kStart + 50ms, unix_millis(5'020)});
  CHECK(time.at(kStart + 100ms) == unix_millis(5'090));
  time.learn({kStart + 60ms, kStart + 62ms, unix_millis(5'059)});
  CHECK(time.at(kStart + 100ms) == unix_millis(5'097));
  // The server's clock gained some seconds: noticed after a minute, by whatever answer.
  time.learn({kStart + 30s, kStart + 31s, unix_millis(39'000)});
  CHECK(time.at(kStart + 31s) == unix_millis(35'997));
  time.learn({kStart + 62s, kStart + 63s, unix_millis(71'000)});
  CHECK(time.at(kStart + 63s) == unix_millis(71'000));
}
