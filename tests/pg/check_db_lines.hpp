#pragma once

#include <catch2/catch.hpp>

#include "check/line.hpp"

/// What tests of `check-db` want of its lines.
namespace ff::test {

/// The only line, which has to say that all is well.
inline void check_fine(const check::Lines& lines) {
  REQUIRE(lines.size() == 1);
  CAPTURE(lines[0].text);
  CHECK(lines[0].verdict == check::Verdict::fine);
  CHECK(lines[0].next.empty());
}

/// The only line, which has to name a fault and a way out.
inline check::Line faulty(const check::Lines& lines, check::Verdict verdict) {
  REQUIRE(lines.size() == 1);
  CAPTURE(lines[0].text);
  CHECK(lines[0].verdict == verdict);
  CHECK_FALSE(lines[0].next.empty());
  return lines[0];
}

}  // namespace ff::test
