// Event ids that are handed out a second time hide events: that is said.
#include "lease/id_watch.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <utility>

using namespace ff;
using lease::IdWatch;
using lease::OutboxHead;

namespace {

constexpr SteadyTime at(int second) {
  return SteadyTime{} + std::chrono::seconds{second};
}

}  // namespace

TEST_CASE("nothing is said while ids rise, whatever is deleted and rolled back") {
  IdWatch ids;
  CHECK(ids.known() == 0);
  CHECK_FALSE(ids.note({{7, 70}, {}, 7}, at(0)));
  ids.settled({7, 70});
  CHECK(ids.known() == 7);
  CHECK_FALSE(ids.note({{7, 70}, 70, 9}, at(1)));
  CHECK_FALSE(ids.note({{0, 0}, {}, 9}, at(2)));
  CHECK_FALSE(ids.note({{12, 1}, {}, 12}, at(3)));
}

TEST_CASE("a sequence below what was delivered is said when it begins, and each minute while it lasts") {
  IdWatch ids;
  ids.settled({5000, 1});
  const auto said = ids.note({{4980, 1}, {}, 4990}, at(0));
  REQUIRE(said);
  CHECK_THAT(*said, Catch::Contains("stands at 4990 and the cursor at 5000: it has jumped back"));
  CHECK_THAT(*said, Catch::Contains("set it to 5000 with setval()"));
  CHECK_THAT(*said, Catch::Contains("lease-events --after 02000000000000137e"));
  CHECK_FALSE(ids.note({{4980, 1}, {}, 4991}, at(59)));
  CHECK(ids.note({{4980, 1}, {}, 4992}, at(60)));
  CHECK_THAT(ids.note({{4980, 1}, {}, 5000}, at(61)).value_or(""),
             Catch::StartsWith("the sequence of lease event ids has caught up with the cursor."));
  CHECK_FALSE(ids.note({{4980, 1}, {}, 5001}, at(62)));
  CHECK(ids.note({{4980, 1}, {}, 3000}, at(63)));
}

TEST_CASE("however far the sequence has got since, the place is named to which it was seen to go back") {
  IdWatch ids;
  ids.settled({132, 132});
  for (const auto& [second, drawn] : {std::pair{0, 35}, {60, 95}, {120, 33}, {180, 119}, {240, 140}}) {
    const auto said = ids.note({{drawn, 1}, {}, drawn}, at(second));
    REQUIRE(said);
    CHECK_THAT(*said, Catch::Contains(second < 120 ? "--after 020000000000000023, the lowest place"
                                                   : "--after 020000000000000021, the lowest place") &&
                          Catch::EndsWith("with an older cursor, from before the failover"));
    if (drawn < 132) ids.settled({drawn, 1});
  }
  CHECK(ids.known() == 0);  // what is settled meanwhile was written since, and tells nothing
}

TEST_CASE("once it is found, the newest event from before that still stands is the cursor to read from") {
  IdWatch ids;
  for (int id = 10; id <= 130; id += 10) ids.settled({id, id});
  // Others have written up to 45 before we saw it, and to 20 it had gone back.
  CHECK_THAT(ids.note({{45, 1}, {}, 45}, at(0)).value_or(""), Catch::Contains("the lowest place"));
  CHECK(ids.known() == 40);
  CHECK_FALSE(ids.note({{46, 1}, 1, 46}, at(1)));  // another has that id now
  CHECK(ids.known() == 30);
  CHECK_FALSE(ids.note({{46, 1}, {}, 46}, at(2)));  // nothing has
  CHECK(ids.known() == 20);
  const std::string way = "--after 020000000000000014, the cursor of event 20: the newest";
  CHECK_THAT(ids.note({{47, 1}, 20, 47}, at(3)).value_or(""),
             Catch::Contains("stands at 47 and the cursor at 130") && Catch::Contains(way));
  CHECK_FALSE(ids.note({{48, 1}, 20, 48}, at(62)));
  CHECK_THAT(ids.note({{95, 1}, {}, 95}, at(63)).value_or(""), Catch::Contains(way));  // deleted since
  CHECK_THAT(ids.note({{131, 1}, {}, 131}, at(64)).value_or(""),
             Catch::Contains("ids up to 130 that were written meanwhile were not delivered") &&
                 Catch::Contains(way));
}

TEST_CASE("a second failover takes back what the first had left") {
  IdWatch ids;
  for (int id = 10; id <= 130; id += 10) ids.settled({id, id});
  CHECK(ids.note({{45, 1}, {}, 45}, at(0)));
  CHECK_THAT(ids.note({{45, 1}, 40, 45}, at(1)).value_or(""), Catch::Contains("event 40:"));
  CHECK_FALSE(ids.note({{25, 1}, {}, 25}, at(2)));
  CHECK(ids.known() == 20);
  CHECK_THAT(ids.note({{26, 1}, 20, 26}, at(3)).value_or(""), Catch::Contains("event 20:"));
}

TEST_CASE("of many events so many are remembered that some old ones are among them") {
  IdWatch ids;
  for (int id = 1; id <= 100'000; ++id) ids.settled({id, id});
  CHECK(ids.note({{500, 1}, {}, 500}, at(0)));
  CHECK(ids.known() > 0);
  CHECK(ids.known() <= 500);
}

TEST_CASE("a sequence that has overtaken the cursor is told by the event that stands where another stood") {
  IdWatch ids;
  ids.settled({5000, 1});
  const auto said = ids.note({{5100, 3}, 2, 5100}, at(0));
  REQUIRE(said);
  CHECK_THAT(*said, Catch::Contains("lease event 5000 is another than the one that had this id"));
  CHECK_FALSE(ids.note({{5100, 3}, 2, 5100}, at(1)));
  ids.settled({5100, 3});
  CHECK(ids.note({{5200, 5}, 4, 5200}, at(2)));
}

TEST_CASE("a sequence that has overtaken the cursor unseen has one line more, with the cursor to read from") {
  IdWatch ids;
  ids.settled({4000, 4});
  ids.settled({5000, 1});
  CHECK_THAT(ids.note({{5100, 3}, 2, 5100}, at(0)).value_or(""),
             Catch::EndsWith("lease-events --after an older cursor, from before the failover"));
  CHECK_THAT(ids.note({{5100, 3}, 4, 5100}, at(1)).value_or(""),
             Catch::Contains("--after 020000000000000fa0, the cursor of event 4000"));
  CHECK_FALSE(ids.note({{5100, 3}, 4, 5100}, at(2)));
}

TEST_CASE("where the sequence may not be read, only the event tells") {
  IdWatch ids;
  ids.settled({5000, 1});
  CHECK_FALSE(ids.note({{10, 3}, {}, {}}, at(0)));
  CHECK(ids.note({{5100, 3}, 2, {}}, at(1)));
}

TEST_CASE("a cursor up to the last id that was handed out is in its place, whatever was deleted") {
  CHECK_FALSE(lease::beyond({20}, {{20, 1}, {}, 20}));
  CHECK_FALSE(lease::beyond({20}, {{0, 0}, {}, 20}));
  CHECK_FALSE(lease::beyond({0}, {{0, 0}, {}, 0}));
}

TEST_CASE(
    "a cursor beyond every id may be of another database, and only after a failover is there something to "
    "do") {
  const auto fault = lease::beyond({35}, {{20, 1}, {}, 20});
  REQUIRE(fault);
  CHECK_FALSE(fault->is_refused);
  CHECK_THAT(fault->text,
             Catch::Contains("the cursor 020000000000000023 (35) is beyond every lease event id that "
                             "this database has handed out, up to 20") &&
                 Catch::Contains("is of another database, or mistyped") &&
                 Catch::Contains("Only if it is known") &&
                 Catch::Contains("set the sequence to 35 with setval()"));
}

TEST_CASE(
    "a cursor so far beyond that no failover explains it is refused, and never a number for the sequence") {
  constexpr auto kLast = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  for (const std::int64_t id : {kLast, kLast - 1, 20 + kFar + 1}) {
    const auto fault = lease::beyond({id}, {{20, 1}, {}, 20});
    REQUIRE(fault);
    CHECK(fault->is_refused);
    CHECK_THAT(fault->text, !Catch::Contains("setval"));
  }
  CHECK_FALSE(lease::beyond({20 + kFar}, {{20, 1}, {}, 20})->is_refused);
}

TEST_CASE("where the sequence may not be read, only a cursor that is refused is noticed") {
  CHECK_FALSE(lease::beyond({35}, {{20, 1}, {}, {}}));
  CHECK(lease::beyond({std::numeric_limits<std::int64_t>::max()}, {{20, 1}, {}, {}}).value().is_refused);
}
