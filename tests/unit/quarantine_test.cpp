#include "reconcile/quarantine.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using namespace ff::reconcile;
using namespace std::chrono_literals;

namespace {

constexpr SteadyTime kNow = SteadyTime{} + std::chrono::hours{1000};
const RowKey kRow{{3}, {"a", "0"}};
const RowKey kNeighbour{{3}, {"a", "1"}};

pg::Error raised(const std::string& sqlstate, const std::string& message) {
  return {pg::Error::Kind::server, message, sqlstate};
}

const pg::Error kSpoiled = raised("P0001", "spoiled");

}  // namespace

TEST_CASE("a row that failed is left out for five seconds, its neighbours are not") {
  Quarantine quarantine;
  CHECK(quarantine.empty());
  CHECK(quarantine.add(kRow, kNow, kSpoiled) == 5s);
  CHECK(quarantine.holds(kRow, kNow));
  CHECK(quarantine.holds(kRow, kNow + 4'999ms));
  CHECK_FALSE(quarantine.holds(kRow, kNow + 5s));
  CHECK_FALSE(quarantine.holds(kNeighbour, kNow));
  CHECK_FALSE(quarantine.holds({{4}, {"a", "0"}}, kNow));
  CHECK(quarantine.size() == 1);
}

TEST_CASE("a row that fails again is left out for twice as long, up to ten minutes") {
  Quarantine quarantine;
  SteadyTime now = kNow;
  for (const Milliseconds expected : {5s, 10s, 20s, 40s, 80s, 160s, 320s, 600s, 600s}) {
    CHECK(quarantine.add(kRow, now, kSpoiled) == expected);
    CHECK(quarantine.holds(kRow, now + expected - 1ms));
    now += expected;
    CHECK_FALSE(quarantine.holds(kRow, now));
    CHECK(quarantine.contains(kRow));
  }
  CHECK(quarantine.size() == 1);
}

TEST_CASE("a row that makes others wait again is left out for four times as long as its try took") {
  Quarantine quarantine;
  CHECK(quarantine.add(kRow, kNow, kSpoiled, {}, 30s) == 5s);
  CHECK(quarantine.add(kRow, kNow, kSpoiled, {}, 30s) == 120s);
  CHECK(quarantine.add(kRow, kNow, kSpoiled, {}, 30s) == 240s);
  CHECK(quarantine.add(kRow, kNow, kSpoiled, {}, 500s) == 600s);
  CHECK(quarantine.add(kRow, kNow, raised("53100", "no room"), {}, 30s) == 5s);
}

TEST_CASE("a row for which the server has no room is tried every five seconds: it may have some again") {
  Quarantine quarantine;
  SteadyTime now = kNow;
  for (const char* state : {"53100", "53200", "53300"}) {
    CHECK(quarantine.add(kRow, now, raised(state, "no room")) == 5s);
    now += 5s;
  }
  CHECK(quarantine.add(kRow, now, kSpoiled) == 10s);
  CHECK(quarantine.add(kRow, now, raised("53100", "no room")) == 5s);
}

TEST_CASE("what a scan of its partition does not show any more is forgotten") {
  const RowKey elsewhere{{4}, {"a", "0"}};
  Quarantine quarantine;
  quarantine.begin_scan();
  for (const RowKey& key : {kRow, kNeighbour, elsewhere}) quarantine.add(key, kNow, kSpoiled);
  quarantine.end_scan({{3}, {4}});
  CHECK(quarantine.size() == 3);
  quarantine.begin_scan();
  CHECK(quarantine.holds(kNeighbour, kNow));
  quarantine.end_scan({{3}});
  CHECK_FALSE(quarantine.contains(kRow));
  CHECK(quarantine.contains(kNeighbour));
  CHECK(quarantine.contains(elsewhere));
}

TEST_CASE("a row that was moved starts anew when it fails later") {
  Quarantine quarantine;
  quarantine.add(kRow, kNow, kSpoiled);
  quarantine.add(kRow, kNow, kSpoiled);
  quarantine.release(kRow);
  CHECK_FALSE(quarantine.holds(kRow, kNow));
  CHECK(quarantine.empty());
  CHECK(quarantine.add(kRow, kNow, kSpoiled) == 5s);
  quarantine.release(kNeighbour);
  CHECK(quarantine.size() == 1);
}

TEST_CASE("a row that nobody met for ten minutes after its time is forgotten") {
  Quarantine quarantine;
  quarantine.add(kRow, kNow, kSpoiled);
  quarantine.add(kNeighbour, kNow + 1s, kSpoiled);
  quarantine.forget_old(kNow + 5s + 10min);
  CHECK(quarantine.size() == 2);
  quarantine.forget_old(kNow + 5s + 10min + 1ms);
  CHECK_FALSE(quarantine.contains(kRow));
  CHECK(quarantine.contains(kNeighbour));
}

TEST_CASE(
    "quarantine tells of its rows: the last reason of each, how often it failed, and when it is tried "
    "again") {
  Quarantine rows;
  const SteadyTime start{};
  rows.add({{1}, {"later"}}, start + 1s, raised("23514", "first"));
  rows.add({{1}, {"later"}}, start + 6s, raised("22012", "last"));
  rows.add({{1}, {"sooner"}}, start + 6s, raised("23505", "only"));
  const auto told = rows.told(start + 7s);
  REQUIRE(told.size() == 2);
  CHECK(told[0].key.columns == std::vector<std::string>{"sooner"});
  CHECK(told[0].tries == 1);
  CHECK(told[0].next_try_in == 4s);
  CHECK(told[1].tries == 2);
  CHECK(told[1].sqlstate == "22012");
  CHECK(told[1].message == "last");
  CHECK(told[1].next_try_in == 9s);
  CHECK(rows.told(start + 1min)[0].next_try_in == 0s);
  for (std::size_t i = 0; i < 2 * Quarantine::kMostTold; ++i)
    rows.add({{2}, {std::to_string(i)}}, start, kSpoiled);
  CHECK(rows.told(start).size() == Quarantine::kMostTold);
}

TEST_CASE("of more rows than quarantine holds those are forgotten that would be tried next") {
  Quarantine rows;
  const auto key = [](std::size_t i) { return RowKey{{2}, {std::to_string(i)}}; };
  rows.add(kRow, kNow, kSpoiled);
  rows.add(kRow, kNow, kSpoiled);
  for (std::size_t i = 1; i < Quarantine::kMost; ++i) rows.add(key(i), kNow + 1s, kSpoiled);
  CHECK(rows.size() == Quarantine::kMost);
  CHECK(rows.contains(key(1)));

  CHECK(rows.add(kNeighbour, kNow + 1s, kSpoiled) == 5s);
  CHECK(rows.size() == Quarantine::kMost);
  CHECK(rows.holds(kNeighbour, kNow + 1s));
  CHECK_FALSE(rows.contains(key(1)));
  CHECK(rows.contains(key(2)));
  CHECK(rows.contains(kRow));
  // One that it knows needs no room, and one that was forgotten begins anew.
  CHECK(rows.add(kRow, kNow + 10s, kSpoiled) == 20s);
  CHECK(rows.contains(key(2)));
  CHECK(rows.add(key(1), kNow + 10s, kSpoiled) == 5s);
  CHECK_FALSE(rows.contains(key(2)));

  rows.forget_old(kNow + 6s + 10min + 1ms);
  CHECK(rows.size() == 2);
  CHECK(rows.told(kNow).size() == 2);
}

TEST_CASE("of more rows than reasons are kept for those are told that failed last") {
  Quarantine rows;
  const auto key = [](std::size_t i) { return RowKey{{2}, {std::to_string(i)}}; };
  rows.add(kRow, kNow, raised("23514", "the first"));
  for (std::size_t i = 0; i < Quarantine::kMostReasons; ++i) rows.add(key(i), kNow + 1s, kSpoiled);
  CHECK(rows.size() == Quarantine::kMostReasons + 1);
  // It would be tried next of all.
  for (const QuarantinedRow& row : rows.told(kNow)) CHECK(row.sqlstate == "P0001");
  CHECK(rows.contains(kRow));
  // That of a row that has left makes room, and who fails again has one.
  CHECK(rows.add(kRow, kNow, raised("23514", "the first")) == 10s);
  for (std::size_t i = 0; i < Quarantine::kMostReasons; ++i) rows.release(key(i));
  const auto told = rows.told(kNow);
  REQUIRE(told.size() == 1);
  CHECK(told[0].message == "the first");
  CHECK(told[0].tries == 2);
  rows.release(kRow);
  CHECK(rows.told(kNow).empty());
}
