// claim_for_worker and nothing more: how soon after the end of its grant each execution can be claimed again.
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "trials/trial.hpp"

namespace ff::test::trials {
namespace {

constexpr std::int64_t kPromised = 2'000;
constexpr std::int64_t kGivenUp = 60'000;
constexpr int kPartitions = 16;
constexpr int kPortion = 100;

using Moments = std::map<std::string, std::int64_t>;  // of each execution, by the database's clock

/// Looks all the time which executions can be claimed. One counts as seen when the statement that sees it has ended.
class Watch {
 public:
  explicit Watch(World& world)
      : connection_(world.connector().connect(Clock::system().now() + Milliseconds{30'000})),
        looking_(std::async(std::launch::async, [this] { poll(); })) {}
  ~Watch() { over_ = true; }

  /// What is seen of it from that moment on counts.
  void granted(const std::string& execution, std::int64_t at) {
    const std::lock_guard lock(mutex_);
    granted_[execution] = at;
  }
  /// When each was first seen to be claimable again: until all are, or it is given up.
  Moments until_all(World& world, const Moments& ends) {
    std::int64_t last = 0;
    for (const auto& [execution, end] : ends) last = std::max(last, end);
    wait_until(
        [&] { return std::ssize(seen()) >= std::ssize(ends) || now_ms(world.connection) > last + kGivenUp; },
        Milliseconds{2 * kGivenUp});
    return seen();
  }

 private:
  Moments seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  void poll() {
    while (!over_) {
      const std::int64_t began = now_ms(connection_);
      const auto found = connection_.execute(
          "SELECT '{fp:' || partition_key || '}:' || execution_id FROM ff_exec_core"
          " WHERE partition_key < 16 AND lifecycle_phase = 'runnable' AND eligibility_state = "
          "'eligible_now'");
      const std::int64_t now = now_ms(connection_);
      {
        const std::lock_guard lock(mutex_);
        for (const auto& row : found)
          if (const auto its = granted_.find(row.get<std::string>(0));
              its != granted_.end() && began > its->second)
            seen_.emplace(its->first, now);
      }
      std::this_thread::sleep_for(Milliseconds{5});
    }
  }

  pg::Connection connection_;
  std::atomic<bool> over_ = false;
  std::mutex mutex_;
  Moments granted_;
  Moments seen_;
  std::future<void> looking_;  // gone first: it waits for its end
};

/// Each has its lane to itself, so that it is granted once. When the grants end.
Moments grant_all(World& world, Watch& watch, int first, int count) {
  std::mt19937 dice(static_cast<unsigned>(first));
  Moments ends;
  for (int i = first; i < first + count; ++i) {
    const std::string lane = "lane" + std::to_string(i);
    const std::string execution = world.execution({{"partition", i % kPartitions}, {"lane", lane}});
    const Json granted =
        world.real.call("claim_for_worker", {{"lane", lane}, {"grant_ttl_ms", 1 + dice() % 2'000}});
    if (granted.is_null() || granted.at("execution") != execution)
      throw std::runtime_error("claim_for_worker does not grant " + execution);
    const std::int64_t now = now_ms(world.connection);
    watch.granted(execution, now);
    const pg::Result grant =
        world.connection.execute("SELECT expires_at_ms FROM ff_claim_grant WHERE execution_id = $1::uuid",
                                 pg::Params::of(World::uuid(execution)));
    // Gone already: it ended before now.
    ends[execution] = grant.empty() ? now : grant.one().get<std::int64_t>(0);
  }
  return ends;
}

int taken(World& world, const Moments& granted) {
  int taken = 0;
  for (const auto& [execution, end] : granted)
    if (world.taken_by(taken % 2 == 0 ? "claim_execution" : "issue_grant_and_claim", execution).empty())
      ++taken;
  return taken;
}

}  // namespace

Seen grants(World& world, const Scale& scale) {
  Seen seen;
  Lateness late;
  RunningDaemon daemon({.conninfo = world.conninfo(), .config = kSixteenPartitions});
  wait_until_ready(daemon);
  for (int first = 0; first < scale.count; first += kPortion) {
    const int portion = std::min(scale.count - first, kPortion);
    Watch watch(world);
    const Moments ends = grant_all(world, watch, first, portion);
    const Moments claimable = watch.until_all(world, ends);
    for (const auto& [execution, end] : ends) {
      const auto found = claimable.find(execution);
      seen.expect(found != claimable.end(), execution + " was not seen to be claimable again");
      if (found != claimable.end()) late.add(std::max(found->second - end, std::int64_t{0}));
    }
    const int all = taken(world, ends);
    seen.expect(all == portion, fmt::format("{} of {} were taken by the real claims", all, portion));
  }
  seen.expect(daemon.stop() == 0, "the daemon did not end well: " + daemon.process().err());
  seen.figures = fmt::format("{} granted to nobody who came: claimable {}", scale.count, late.text());
  seen.expect(late.most() <= kPromised,
              fmt::format("one was claimable only {} ms after its grant's end", late.most()));
  return seen;
}

}  // namespace ff::test::trials
