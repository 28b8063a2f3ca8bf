#include "reconcile/batch_size.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using namespace std::chrono_literals;
using reconcile::BatchSize;

TEST_CASE("quick transactions are as large as configured") {
  BatchSize size(1000);
  CHECK(size.now() == 1000);
  size.learn(1000, 99ms, 0ms);
  CHECK(size.now() == 1000);
  size.learn(1000, 0ms, 0ms);
  CHECK(size.now() == 1000);
}

TEST_CASE("after a slow transaction the next one is as large as would have fitted the budget") {
  BatchSize size(1000);
  size.learn(1000, 400ms, 0ms);
  CHECK(size.now() == 250);
  size.learn(250, 110ms, 0ms);
  CHECK(size.now() == 227);
  size.learn(227, 60ms, 0ms);  // neither slow nor quick
  CHECK(size.now() == 227);
}

TEST_CASE("however slow the server is, a transaction has some rows") {
  BatchSize size(1000);
  size.learn(1000, 1h, 0ms);
  CHECK(size.now() == 125);
  BatchSize small(5);
  small.learn(5, 1h, 0ms);
  CHECK(small.now() == 1);
}

TEST_CASE("where the changes of a few rows alone take long, a transaction has as few as fit") {
  BatchSize size(1000);
  size.learn(600, 12s, 12s);
  CHECK(size.now() == 5);
  size.learn(5, 150ms, 140ms);  // no reason to take more again
  CHECK(size.now() == 5);
  size.learn(5, 20ms, 10ms);
  CHECK(size.now() == 10);
  size.learn(10, 20s, 1s);  // the commit
  CHECK(size.now() == 10);
}

TEST_CASE("that a few rows took long says nothing about many") {
  BatchSize size(1000);
  size.learn(1, 1h, 0ms);
  CHECK(size.now() == 1000);
}

TEST_CASE("while whole batches are quick they grow back, and rows that were few anyway tell nothing") {
  BatchSize size(1000);
  size.learn(1000, 400ms, 0ms);
  size.learn(20, 1ms, 0ms);
  CHECK(size.now() == 250);
  size.learn(250, 49ms, 0ms);
  CHECK(size.now() == 500);
  size.learn(500, 49ms, 0ms);
  size.learn(1000, 49ms, 0ms);
  CHECK(size.now() == 1000);
}

TEST_CASE("a new configuration starts over") {
  BatchSize size(1000);
  size.learn(1000, 400ms, 0ms);
  size.start_over(300);
  CHECK(size.now() == 300);
}
