#include "faults/feed.hpp"

#include <algorithm>

#include "demo/simulation/executions.hpp"
#include "demo/simulation/worker.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;

// Each waits for its commits to be flushed, most of the time.
constexpr int kThreads = 12;
constexpr const char* kFeedLane = "feed";
constexpr Milliseconds kLease = 1200ms;
constexpr Milliseconds kDelay = 800ms;
constexpr int kMade = 16;  // executions at a time, when there is none to claim
constexpr std::int32_t kRetries = 3;

}  // namespace

Feed::Feed(World& world, int rows_a_second) {
  const auto step = std::chrono::duration_cast<SteadyTime::duration>(kThreads * 1s) / rows_a_second;
  for (int i = 0; i < kThreads; ++i)
    threads_.emplace_back([this, i, step, partitions = world.realm().partitions,
                           connection = world.connect()](const std::stop_token& stop) mutable {
      try {
        live(stop, connection, partitions, i, step);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex_);
        errors_.emplace_back(error.what());
      }
    });
}

void Feed::end() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

std::vector<std::string> Feed::errors() const {
  const std::lock_guard lock(mutex_);
  return errors_;
}

void Feed::live(const std::stop_token& stop, pg::Connection& connection, const Partitions& partitions,
                int worker, SteadyTime::duration step) {
  simulation::Worker hands(connection, "feed-" + std::to_string(worker), kLease, kFeedLane);
  simulation::NewExecution next;
  next.lane = kFeedLane;
  next.name_space = kFeedLane;
  next.max_retries = kRetries;
  SteadyTime turn = Clock::system().now();
  for (bool delay = false; !stop.stop_requested(); turn = std::max(turn + step, Clock::system().now() - 1s)) {
    std::this_thread::sleep_until(turn);
    auto claim = hands.claim(partitions);
    if (!claim) {
      simulation::create(connection, next, partitions, kMade);
      claim = hands.claim(partitions);
    }
    if (!claim) continue;
    ++claims_;
    delay = !delay;
    // Else it is abandoned. A delay may be refused: on a busy machine the lease has lapsed before it comes.
    if (delay) hands.delay(*claim, kDelay);
  }
}

}  // namespace ff::faults
