#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>

#include "reconcile/sightings.hpp"

using namespace ff;
using reconcile::Sightings;

namespace {

void check(const Sightings::When& when, std::int64_t after, std::int64_t seen) {
  CHECK(count(when.after) == after);
  CHECK(count(when.seen) == seen);
}

}  // namespace

TEST_CASE("a version is as old as the first snapshot that knows its transaction") {
  Sightings sightings;
  sightings.note(unix_millis(1'000), "90:100:90,95", 1);
  sightings.note(unix_millis(2'000), "95:110:95", 1);
  sightings.note(unix_millis(3'000), "120:120:", 1);
  check(sightings.written(50), 1'000, 1'000);
  check(sightings.written(90), 1'000, 2'000);
  check(sightings.written(95), 2'000, 3'000);
  check(sightings.written(105), 1'000, 2'000);
  check(sightings.written(119), 2'000, 3'000);
  check(sightings.written(120), 3'000, 3'000);
}

TEST_CASE("versions are told apart when the numbers of transactions begin again") {
  constexpr std::uint64_t kEpoch = std::uint64_t{1} << 32;
  Sightings sightings;
  const auto note = [&](std::int64_t at, std::uint64_t next) {
    const std::string number = std::to_string(next);
    sightings.note(unix_millis(at), number + ":" + number + ":", 1);
  };
  note(1'000, kEpoch - 5);
  check(sightings.written(3), 1'000, 1'000);  // it has begun since
  note(2'000, kEpoch + 5);
  check(sightings.written(3), 1'000, 2'000);
  check(sightings.written(0xffffff00U), 1'000, 1'000);
  CHECK(reconcile::is_younger(3, 0xffffff00U));
  CHECK_FALSE(reconcile::is_younger(0xffffff00U, 3));
  CHECK_FALSE(reconcile::is_younger(3, 3));
}

TEST_CASE("another server, or a clock that was set back, is known from its first snapshot on") {
  Sightings sightings;
  sightings.note(unix_millis(1'000), "100:100:", 1);
  sightings.note(unix_millis(2'000), "100:100:", 2);
  CHECK(sightings.size() == 1);
  check(sightings.written(50), 2'000, 2'000);
  sightings.note(unix_millis(1'500), "100:100:", 2);
  CHECK(sightings.size() == 1);
  sightings.note(unix_millis(2'500), "90:90:", 2);
  CHECK(sightings.size() == 1);
}

TEST_CASE("snapshots are thinned out, the newest are all there") {
  Sightings sightings;
  const auto seconds = static_cast<std::int64_t>(2 * Sightings::kMost);
  for (std::int64_t i = 1; i <= seconds; ++i) {
    const std::string next = std::to_string(i * 10);
    sightings.note(unix_millis(i * 1'000), next + ":" + next + ":", 1);
  }
  CHECK(sightings.size() <= Sightings::kMost);
  const std::int64_t last = seconds - 100;
  check(sightings.written(static_cast<std::uint32_t>(last * 10 - 1)), (last - 1) * 1'000, last * 1'000);
  check(sightings.written(5), 1'000, 1'000);
}

TEST_CASE("what is no snapshot is refused") {
  Sightings sightings;
  for (const char* text : {"", "100", "x", "1:x:"})
    CHECK_THROWS_AS(sightings.note(unix_millis(1), text, 1), std::runtime_error);
}
