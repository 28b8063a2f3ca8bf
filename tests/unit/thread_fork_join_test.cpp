#include "supervisor/thread_fork_join.hpp"

#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/log_scope.hpp"

using namespace ff;
using supervisor::ThreadForkJoin;

TEST_CASE("the work runs here and in as many threads as are wanted and there") {
  const auto [threads, wanted, lent] =
      GENERATE(table<int, std::size_t, int>({{0, 5, 0}, {2, 0, 0}, {2, 1, 1}, {2, 5, 2}}));
  ThreadForkJoin fork_join(threads);
  const auto caller = std::this_thread::get_id();
  bool ran_here = false;
  std::atomic<int> beside = 0;
  std::barrier together(lent + 1);  // all at once, or this never ends
  fork_join.run(
      wanted,
      [&] {
        ran_here = std::this_thread::get_id() == caller;
        together.arrive_and_wait();
      },
      [&] {
        ++beside;
        together.arrive_and_wait();
      });
  CHECK(ran_here);
  CHECK(beside == lent);
}

TEST_CASE("threads that are lent to one are not there for another, until they come back") {
  ThreadForkJoin fork_join(2);
  std::atomic<int> inner = 0;
  fork_join.run(
      1,
      [&] {
        fork_join.run(
            5, [] {}, [&] { ++inner; });
      },
      [&] {
        while (inner == 0) std::this_thread::yield();
      });
  CHECK(inner == 1);
  std::atomic<int> later = 0;
  std::barrier both(2);
  fork_join.run(
      5, [] {},
      [&] {
        ++later;
        both.arrive_and_wait();
      });
  CHECK(later == 2);
}

TEST_CASE("what is thrown is thrown again when all have returned") {
  ThreadForkJoin fork_join(1);
  bool finished = false;
  CHECK_THROWS_WITH(fork_join.run(
                        1, [&] { finished = true; }, [] { throw std::runtime_error("beside"); }),
                    "beside");
  CHECK(finished);
  std::atomic<bool> beside = false;
  CHECK_THROWS_WITH(fork_join.run(
                        1, [] { throw std::runtime_error("here"); }, [&] { beside = true; }),
                    "here");
  CHECK(beside);
}

TEST_CASE("what runs beside logs under the id of the tick that it helps") {
  ThreadForkJoin fork_join(1);
  const LogScope scope(next_log_id());
  std::uint64_t seen = 0;
  fork_join.run(
      1, [] {}, [&] { seen = LogScope::current(); });
  CHECK(seen == LogScope::current());
  CHECK(seen != 0);
}

TEST_CASE("where nobody has a thread to spare the work runs here") {
  int runs = 0;
  reconcile::ForkJoin::none().run(
      5, [&] { ++runs; }, [&] { runs += 100; });
  CHECK(runs == 1);
}
