#include "reconcile/fair_queue.hpp"

#include <algorithm>
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
  CHECK(order(queue.pop(4)) == "a1 b9 5 a2");
  CHECK(order(queue.pop(10)) == "a3");
  CHECK(queue.empty());
  CHECK_FALSE(queue.oldest());
}

TEST_CASE("whose turn it was is remembered from one taking to the next") {
  FairQueue queue;
  queue.add({row("a", 1), row("a", 2), row("b", 1), row("b", 2)});
  CHECK(order(queue.pop(1)) == "a1");
  CHECK(order(queue.pop(1)) == "b1");
  CHECK(order(queue.pop(1)) == "a2");
}

TEST_CASE("where it is full, the youngest row of who has the most gives way, and is counted") {
  FairQueue queue;
  const auto fill = [&](const std::string& name_space, std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i) queue.add({row(name_space, static_cast<int>(i))});
  };
  fill("a", FairQueue::kMost + 7);
  CHECK(queue.size() == FairQueue::kMost);
  CHECK(queue.left_out() == 7);
  fill("b", FairQueue::kMost);
  CHECK(queue.size() == FairQueue::kMost);
  CHECK(queue.left_out() == FairQueue::kMost + 7);
  // Whom two others have filled it for has its turn all the same, and its rows in their order.
  queue.add({row("c", 2), row("c", 1)});
  CHECK(queue.size() == FairQueue::kMost);
  CHECK(order(queue.pop(6)) == "a0 b0 c1 a1 b1 c2");
  const std::vector<Candidate> left = queue.pop(FairQueue::kMost);
  CHECK(left.size() == FairQueue::kMost - 6);
  CHECK(std::ranges::count(left, std::string("a"), &Candidate::name_space) ==
        std::ranges::count(left, std::string("b"), &Candidate::name_space));
  fill("d", 3);
  CHECK(order(queue.pop(2)) == "d0 d1");
  queue.clear();
  CHECK(queue.empty());
  CHECK(queue.left_out() == 0);
}

TEST_CASE("a row that is in the queue is not added again, and one that was taken is") {
  FairQueue queue;
  queue.add({row("a", 1), row("a", 1)});
  queue.add({row("a", 1)});
  CHECK(order(queue.pop(10)) == "a1");
  queue.add({row("a", 1)});
  CHECK(order(queue.pop(10)) == "a1");
}
