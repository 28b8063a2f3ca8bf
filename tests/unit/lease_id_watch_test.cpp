// Event ids that are handed out a second time hide events: that is said.
#include "lease/id_watch.hpp"

#include <catch2/catch.hpp>

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
  CHECK_FALSE(ids.note({{7, 70}, {}, 7}, 0, at(0)));
  ids.settled({7, 70});
  CHECK(ids.known() == 7);
  CHECK_FALSE(ids.note({{7, 70}, 70, 9}, 7, at(1)));
  CHECK_FALSE(ids.note({{0, 0}, {}, 9}, 7, at(2)));
  CHECK_FALSE(ids.note({{12, 1}, {}, 12}, 7, at(3)));
}

TEST_CASE("a sequence below what was delivered is said when it begins, and each minute while it lasts") {
  IdWatch ids;
  ids.settled({5000, 1});
  const auto said = ids.note({{4980, 1}, {}, 4990}, 5000, at(0));
  REQUIRE(said);
  CHECK_THAT(*said, Catch::Contains("stands at 4990 and the cursor at 5000: it has jumped back"));
  CHECK_THAT(*said, Catch::Contains("set it to 5000 with setval()"));
  CHECK_THAT(*said, Catch::Contains("lease-events --after 02000000000000137e"));
  CHECK_FALSE(ids.note({{4980, 1}, {}, 4991}, 5000, at(59)));
  CHECK(ids.note({{4980, 1}, {}, 4992}, 5000, at(60)));
  CHECK_FALSE(ids.note({{4980, 1}, {}, 5000}, 5000, at(61)));
  CHECK(ids.note({{4980, 1}, {}, 3000}, 5000, at(62)));
}

TEST_CASE("a sequence that has overtaken the cursor is told by the event that stands where another stood") {
  IdWatch ids;
  ids.settled({5000, 1});
  const auto said = ids.note({{5100, 3}, 2, 5100}, 5000, at(0));
  REQUIRE(said);
  CHECK_THAT(*said, Catch::Contains("lease event 5000 is another than the one that had this id"));
  CHECK_FALSE(ids.note({{5100, 3}, 2, 5100}, 5000, at(1)));
  ids.settled({5100, 3});
  CHECK(ids.note({{5200, 5}, 4, 5200}, 5100, at(2)));
}

TEST_CASE("where the sequence may not be read, only the event tells") {
  IdWatch ids;
  ids.settled({5000, 1});
  CHECK_FALSE(ids.note({{10, 3}, {}, {}}, 5000, at(0)));
  CHECK(ids.note({{5100, 3}, 2, {}}, 5000, at(1)));
}
