// What is paused, as it is known between two readings; and the moments in which operators give its end.
#include "supervisor/pauses.hpp"

#include <catch2/catch.hpp>

#include "base/moment.hpp"
#include "support/manual_clock.hpp"

using namespace ff;
using namespace std::chrono_literals;
using supervisor::Pauses;

namespace {

constexpr UnixMillis kNow = unix_millis(1'800'000'000'000);  // by the database's clock, which is not ours

pause::Pause of(const std::string& reconciler, std::optional<Milliseconds> lasts = {}) {
  return {.reconciler = reconciler,
          .by = "anna@bastion",
          .reason = "index rebuild",
          .since = kNow - 1min,
          .until = lasts ? std::optional(kNow + *lasts) : std::nullopt};
}

}  // namespace

TEST_CASE("a pause holds its reconciler, one of all holds each") {
  test::ManualClock clock;
  Pauses pauses(clock);
  pauses.learn({}, kNow, clock.now());
  CHECK_FALSE(pauses.hold("lease_expiry"));
  pauses.learn({of("lease_expiry")}, kNow, clock.now());
  CHECK(pauses.hold("lease_expiry"));
  CHECK_FALSE(pauses.hold("dependency"));
  pauses.learn({of("lease_expiry"), of("*")}, kNow, clock.now());
  CHECK(pauses.hold("dependency"));
  CHECK(pause::covering(pauses.in_force(), "lease_expiry").size() == 2);
  pauses.learn({of("lease_expiry")}, kNow, clock.now());
  CHECK(pauses.hold("lease_expiry"));
  CHECK_FALSE(pauses.hold("dependency"));
}

TEST_CASE("a pause is over at its end by the clock of the database, though nothing more is read") {
  test::ManualClock clock;
  Pauses pauses(clock);
  pauses.learn({of("lease_expiry", 10s), of("dependency")}, kNow, clock.now());
  REQUIRE(pauses.could_not_read(true));
  clock.advance(9999ms);
  CHECK(pauses.hold("lease_expiry"));
  clock.advance(1ms);
  CHECK_FALSE(pauses.hold("lease_expiry"));
  CHECK(pauses.hold("dependency"));
  CHECK(pauses.in_force() == std::vector{of("dependency")});
}

TEST_CASE("before the first reading nothing may act, and the reading lets it") {
  test::ManualClock clock;
  Pauses pauses(clock);
  CHECK(pauses.hold("lease_expiry"));
  CHECK(pauses.in_force().empty());
  CHECK(pauses.learn({of("dependency")}, kNow, clock.now()));
  CHECK_FALSE(pauses.hold("lease_expiry"));
  CHECK(pauses.hold("dependency"));
  CHECK_FALSE(pauses.learn({}, kNow, clock.now()));
}

TEST_CASE("a reading counts from its beginning for less than the 6 s of a pause") {
  test::ManualClock clock;
  Pauses pauses(clock);
  const SteadyTime began = clock.now();
  clock.advance(2s);  // a slow one
  pauses.learn({}, kNow, began);
  clock.advance(3500ms);
  CHECK_FALSE(pauses.hold("lease_expiry"));
  clock.advance(1ms);
  CHECK(pauses.hold("lease_expiry"));
  CHECK(pauses.learn({}, kNow, clock.now()));
  CHECK_FALSE(pauses.hold("lease_expiry"));
  CHECK(Pauses::kReadingCounts < 6s);
}

TEST_CASE("readings that fail hold all for a few tries only, and one that succeeds makes them count anew") {
  test::ManualClock clock;
  Pauses pauses(clock);
  pauses.learn({of("dependency")}, kNow, clock.now());
  clock.advance(6s);
  for (int again = 0; again < 2; ++again) {
    for (int i = 1; i < Pauses::kFailuresHeldFor; ++i) {
      CHECK_FALSE(pauses.could_not_read(false));
      CHECK(pauses.hold("lease_expiry"));
    }
    CHECK(pauses.could_not_read(false));
    CHECK_FALSE(pauses.hold("lease_expiry"));
    CHECK(pauses.hold("dependency"));
    CHECK_FALSE(pauses.could_not_read(false));
    CHECK_FALSE(pauses.learn({of("dependency")}, kNow, clock.now()));  // nobody was held for want of it
    clock.advance(6s);
    CHECK(pauses.hold("lease_expiry"));
  }
}

TEST_CASE("a table that can never be read holds nothing") {
  test::ManualClock clock;
  Pauses pauses(clock);
  CHECK(pauses.could_not_read(true));
  CHECK_FALSE(pauses.hold("lease_expiry"));
  clock.advance(1h);
  CHECK_FALSE(pauses.could_not_read(true));
  CHECK_FALSE(pauses.hold("lease_expiry"));
}

TEST_CASE("a pause says who, why and until when, and what lifts it") {
  CHECK(pause::text_of(of("*", 2h), kNow) ==
        "by anna@bastion, until 2027-01-15T10:00:00Z (in 2 h): index rebuild");
  CHECK(pause::text_of(of("dependency"), kNow) == "by anna@bastion, until it is resumed: index rebuild");
  CHECK(pause::resume_line("*", false) == "ff-reconcilerd resume all");
  CHECK(pause::resume_line("dependency", true) == "ff-reconcilerd resume dependency");
  CHECK(pause::resume_line("zzz_not", false) == "delete its row from ff_reconciler_pause");
}

TEST_CASE("a moment is read with its zone only, and written in UTC") {
  const auto six = parse_moment("2026-11-24T06:00Z");
  REQUIRE(six);
  CHECK(format_moment(*six) == "2026-11-24T06:00:00Z");
  CHECK(parse_moment("2026-11-24T07:30:00+01:30") == six);
  CHECK(parse_moment("2026-11-23T23:00:00-07:00") == six);
  CHECK(parse_moment("1970-01-01T00:00:01Z") == unix_millis(1000));
  CHECK(format_moment(*parse_moment("2028-02-29T23:59:59Z")) == "2028-02-29T23:59:59Z");
  for (const char* wrong :
       {"", "2026-11-24", "2026-11-24T06:00", "2026-11-24 06:00Z", "2026-02-29T06:00Z", "2026-11-24T24:00Z",
        "2026-11-24T06:60Z", "2026-11-24T06:00:00.5Z", "2026-11-24T06:00Zx", "2026-1-24T06:00Z",
        "2026-11-24T06:00+1", "tomorrow", "+026-11-24T06:00Z"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_moment(wrong));
  }
  CHECK(format_moment(UnixMillis::max()) == "9999-12-31T23:59:59Z");
  CHECK(format_moment(UnixMillis::min()) == "0000-01-01T00:00:00Z");
}
