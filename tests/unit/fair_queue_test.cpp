#include "reconcile/fair_queue.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using namespace ff::reconcile;

namespace {

Candidate row(const std::string& name_space, int due_at) {
  Candidate row{{{0}, {name_space + std::to_string(due_at)}}, unix_millis(due_at), true};
  row.name_space = name_space;
  return row;
}

std::string order(const std::vector<Candidate>& rows) {
  std::string text;
  for (const Candidate& each : rows) text += (text.empty() ? "" : " ") + each.key.columns[0];
  return text;
}

}  // namespace

TEST_CASE("each namespace has its turn, of each the oldest first") {
  FairQueue queue;
  queue.add({row("a", 3), row("a", 1), row("a", 2), row("b", 9), row("", 5)});
  CHECK(queue.size() == 5);
  CHECK(queue.oldest() == unix_millis(1));
  CHECK(order(queue.take(4)) == "a1 b9 5 a2");
  CHECK(order(queue.take(10)) == "a3");
  CHECK(queue.empty());
  CHECK_FALSE(queue.oldest());
}

TEST_CASE("whose turn it was is remembered from one helping to the next") {
  FairQueue queue;
  queue.add({row("a", 1), row("a", 2), row("b", 1), row("b", 2)});
  CHECK(order(queue.take(1)) == "a1");
  CHECK(order(queue.take(1)) == "b1");
  CHECK(order(queue.take(1)) == "a2");
}

TEST_CASE("a row that is in the queue is not added again, and one that was taken is") {
  FairQueue queue;
  queue.add({row("a", 1), row("a", 1)});
  queue.add({row("a", 1)});
  CHECK(order(queue.take(10)) == "a1");
  queue.add({row("a", 1)});
  CHECK(order(queue.take(10)) == "a1");
}
