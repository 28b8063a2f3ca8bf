// Random histories as in histories_test, with some workers whose clock is two seconds behind the database's, and a
// `grace` of as much.
#include <catch2/catch.hpp>

#include "histories/campaign.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE("workers whose clock is behind are not harmed where grace covers it") {
  play(seeds_or({1001, 1008}), true);
}

// By the worker's clock the lease lasts for 450,000 ms, by the database's it ends that much earlier as the clock is
// behind; 360,000 ms later it is taken, or not.
TEST_CASE("a worker whose clock is behind is robbed where grace does not cover it") {
  const History history =
      from_script(R"({"do":"create_execution","as":"e1","partition":0,"runnable":"pending"}
{"do":"claim","execution":"e1","as":"h1","ttl_ms":450000,"behind":true}
{"do":"age","ms":360000}
{"do":"tick","reconciler":"lease_expiry"}
{"do":"renew","handle":"h1"})");
  CHECK(tally(replay({.grace_ms = kBehindMs / 2}, history).verdicts)[Fault::robbed] > 0);
  CHECK(replay({.grace_ms = kBehindMs}, history).verdicts.empty());
}
