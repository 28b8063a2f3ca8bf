#include "trials/claimable.hpp"

#include <thread>

namespace ff::test::trials {
namespace {

constexpr std::int64_t kGivenUp = 60'000;

}  // namespace

ClaimableWatch::ClaimableWatch(World& world)
    : connection_(world.connector().connect(Clock::system().now() + Milliseconds{30'000})),
      looking_(std::async(std::launch::async, [this] { poll(); })) {}

ClaimableWatch::~ClaimableWatch() {
  over_ = true;
}

void ClaimableWatch::follow(const std::string& execution, std::int64_t since) {
  const std::lock_guard lock(mutex_);
  followed_[execution] = since;
}

Moments ClaimableWatch::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

Moments ClaimableWatch::until_all(World& world, const Moments& ends) const {
  std::int64_t last = 0;
  for (const auto& [execution, end] : ends) last = std::max(last, end);
  wait_until(
      [&] { return std::ssize(seen()) >= std::ssize(ends) || now_ms(world.connection) > last + kGivenUp; },
      Milliseconds{2 * kGivenUp});
  return seen();
}

// Each partition by its number, or all of the table's children would be read.
void ClaimableWatch::poll() {
  std::string partitions = "0";
  for (int i = 1; i < kDaemonPartitions; ++i) partitions += ", " + std::to_string(i);
  const std::string query =
      "SELECT '{fp:' || partition_key || '}:' || execution_id FROM ff_exec_core WHERE partition_key IN (" +
      partitions + ") AND lifecycle_phase = 'runnable' AND eligibility_state = 'eligible_now'";
  while (!over_) {
    const std::int64_t began = now_ms(connection_);
    const auto found = connection_.execute(query);
    const std::int64_t now = now_ms(connection_);
    {
      const std::lock_guard lock(mutex_);
      for (const auto& row : found)
        if (const auto its = followed_.find(row.get<std::string>(0));
            its != followed_.end() && began > its->second)
          seen_.emplace(its->first, now);
    }
    std::this_thread::sleep_for(Milliseconds{5});
  }
}

Lateness lateness_of(const Moments& ends, const Moments& claimable, Seen& seen) {
  Lateness late;
  for (const auto& [execution, end] : ends) {
    const auto found = claimable.find(execution);
    seen.expect(found != claimable.end(), execution + " was not seen to be claimable again");
    if (found == claimable.end()) continue;
    seen.expect(found->second >= end,
                fmt::format("{} was claimable {} ms too early", execution, end - found->second));
    late.add(found->second - end);
  }
  return late;
}

}  // namespace ff::test::trials
