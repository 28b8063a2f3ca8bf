#include "reconcile/token_bucket.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using namespace ff::reconcile;
using namespace std::chrono_literals;

namespace {

constexpr SteadyTime kStart = SteadyTime{} + std::chrono::hours{1000};

/// A bucket of a hundred tokens a second that has been emptied at kStart.
TokenBucket emptied() {
  TokenBucket bucket(100);
  bucket.take("all", 200, kStart);
  return bucket;
}

}  // namespace

TEST_CASE("a bucket begins with the tokens of two seconds, and never has more") {
  TokenBucket bucket(100);
  CHECK(bucket.take("one", 50, kStart) == 50);
  CHECK(bucket.take("one", 1000, kStart + 1h) == 200);
}

TEST_CASE("tokens come by and by, and are no more than the rate") {
  TokenBucket bucket = emptied();
  CHECK(bucket.take("one", 10, kStart) == 0);
  std::int64_t taken = 0;
  for (Milliseconds at{7}; at <= 10s; at += 7ms) taken += bucket.take("one", 1000, kStart + at);
  CHECK(taken >= 990);
  CHECK(taken <= 1000);
}

TEST_CASE("who goes short leaves half to another who does") {
  TokenBucket bucket = emptied();
  CHECK(bucket.take("large", 100'000, kStart) == 0);
  CHECK(bucket.take("small", 1, kStart) == 0);
  CHECK(bucket.take("large", 100'000, kStart + 100ms) == 5);
  CHECK(bucket.take("small", 1, kStart + 100ms) == 1);
  // Who has got what it wanted is not waited for any more.
  CHECK(bucket.take("large", 100'000, kStart + 100ms) == 4);
}

TEST_CASE("who went short and does not come again is forgotten") {
  TokenBucket bucket = emptied();
  CHECK(bucket.take("gone", 100, kStart) == 0);
  CHECK(bucket.take("other", 100'000, kStart + 2001ms) == 200);
}

TEST_CASE("of a single token whoever comes first has it") {
  TokenBucket bucket = emptied();
  bucket.take("a", 5, kStart);
  bucket.take("b", 5, kStart);
  CHECK(bucket.take("a", 5, kStart + 10ms) == 1);
}

TEST_CASE("tokens that were not needed are put back, as far as there is room") {
  TokenBucket bucket = emptied();
  bucket.put_back(30, kStart);
  CHECK(bucket.take("one", 100, kStart) == 30);
  bucket.put_back(100'000, kStart);
  CHECK(bucket.take("one", 100'000, kStart) == 200);
}

TEST_CASE("it says how long until there will be so many") {
  TokenBucket bucket = emptied();
  CHECK(bucket.until(25, kStart) == 250ms);
  CHECK(bucket.until(25, kStart + 250ms) == 0ms);
  // More than it can hold there never will be: as many as it can.
  CHECK(bucket.until(100'000, kStart) == 2s);
}

TEST_CASE("a new rate counts from then on") {
  TokenBucket bucket = emptied();
  bucket.set_rate(1000, kStart + 1s);
  CHECK(bucket.take("one", 100'000, kStart + 1s) == 100);
  CHECK(bucket.take("one", 100'000, kStart + 2s) == 1000);
  bucket.put_back(2000, kStart + 2s);
  bucket.set_rate(10, kStart + 2s);
  CHECK(bucket.take("one", 100'000, kStart + 2s) == 20);
}

TEST_CASE("a clock that steps back neither takes tokens away nor makes any") {
  TokenBucket bucket = emptied();
  CHECK(bucket.take("one", 100, kStart - 1h) == 0);
  CHECK(bucket.take("one", 100, kStart + 100ms) == 10);
}
