#include "reconcile/lateness.hpp"

#include <catch2/catch.hpp>

using namespace std::chrono_literals;
using ff::Milliseconds;
using ff::reconcile::Lateness;

TEST_CASE("lateness is exact where it is small, and within a sixty-fourth where it is large") {
  for (std::int64_t late = 0; late < 128; ++late) CHECK(Lateness{Milliseconds{late}}.worst().count() == late);
  for (const std::int64_t late : {128L, 129L, 255L, 1'000L, 59'999L, 3'600'001L, 1'700'000'000'123L}) {
    const auto kept = Lateness{Milliseconds{late}}.worst().count();
    CHECK(kept >= late);
    CHECK(kept < late + late / 64);
  }
}

TEST_CASE("the lateness of a million rows takes little room, and loses no row") {
  Lateness lateness;
  for (std::int64_t late = 1; late <= 1'000'000; ++late) lateness.add(Milliseconds{late});
  CHECK(lateness.rows() == 1'000'000);
  CHECK(lateness.sum().count() == 500'000'500'000);
  CHECK(lateness.rows_by_lateness().size() < 1'000);
}

TEST_CASE("whoever seems early is counted, but takes nothing from the sum") {
  const Lateness lateness{-5s, -1ms, 3ms};
  CHECK(lateness.rows() == 3);
  CHECK(lateness.sum() == 3ms);
  CHECK(lateness.rows_by_lateness().size() == 2);
}

TEST_CASE("the lateness of two passes adds up") {
  Lateness all{1ms, 300ms};
  all.add(Lateness{1ms, 2h});
  CHECK(all == Lateness{1ms, 1ms, 300ms, 2h});
}
