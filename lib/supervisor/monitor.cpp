#include "supervisor/monitor.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "supervisor/random.hpp"

namespace ff::supervisor {
namespace {

using namespace std::chrono_literals;

// A reason that is another at each check would fill the log.
constexpr Milliseconds kBetweenReasons = 1min;

void log_change(State state, const Observation& seen) {
  switch (state) {
    case State::ready:
      return spdlog::info("database is writable: reconcilers run");
    case State::recovering:
      return spdlog::info("database is recovering: {}", seen.reason);
    case State::schema_outdated:
      return spdlog::error("the schema is not what the reconcilers need: {}", seen.reason);
    default:
      if (seen.authentication) return spdlog::critical("the database refuses the login: {}", seen.reason);
      return spdlog::warn("database is {}: {}", name(state), seen.reason);
  }
}

}  // namespace

Monitor::Monitor(Milliseconds recovery_grace, std::function<Observation()> check, Observer& observer,
                 const Clock& clock)
    : check_(std::move(check)), observer_(observer), clock_(clock), availability_(recovery_grace) {}

Monitor::~Monitor() {
  stop();
}

void Monitor::start(std::function<void()> changed, std::function<void()> confirmed) {
  changed_ = std::move(changed);
  confirmed_ = std::move(confirmed);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Monitor::request_stop() {
  thread_.request_stop();
}

void Monitor::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void Monitor::check_now() {
  {
    const std::lock_guard lock(mutex_);
    check_wanted_ = unchecked_ = true;
  }
  wake_.notify_all();
}

void Monitor::told_time(const reconcile::TimeReading& reading) {
  {
    // In one step, so that nobody else takes leases by that clock before the check.
    const std::lock_guard lock(mutex_);
    if (!server_clock_.learn(reading)) return;
    clock_was_set_ = check_wanted_ = unchecked_ = true;
  }
  wake_.notify_all();
}

void Monitor::met_lock() {
  {
    const std::lock_guard lock(mutex_);
    availability_.met_lock(clock_.now());
    soon_wanted_ = true;
  }
  wake_.notify_all();
}

void Monitor::met_full_disk() {
  {
    const std::lock_guard lock(mutex_);
    if (!availability_.met_full_disk(clock_.now())) return;
    soon_wanted_ = true;
  }
  wake_.notify_all();
}

bool Monitor::found_room() {
  {
    const std::lock_guard lock(mutex_);
    if (availability_.found_room(clock_.now())) return true;
    soon_wanted_ = true;
  }
  wake_.notify_all();
  return false;
}

void Monitor::check_soon() {
  {
    const std::lock_guard lock(mutex_);
    soon_wanted_ = true;
  }
  wake_.notify_all();
}

void Monitor::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    check_once(stop);
    std::unique_lock lock(mutex_);
    wake_.wait_until(lock, stop, availability_.next_check(clock_.now(), random_share()),
                     [&] { return check_wanted_ || soon_wanted_; });
    check_wanted_ = soon_wanted_ = false;
  }
}

void Monitor::check_once(const std::stop_token& stop) {
  Observation seen = check_();
  if (stop.stop_requested()) return;  // nobody asks any more, and it may have been interrupted
  State state;
  bool is_new;
  bool is_told;
  {
    const std::lock_guard lock(mutex_);
    seen.clock_was_set = std::exchange(clock_was_set_, false);
    if (seen.reading && server_clock_.learn(*seen.reading)) seen.clock_was_set = true;
    availability_.observe(seen, clock_.now());
    state = availability_.state(clock_.now());
    if (state == State::recovering) add_recovery(seen);
    // Refused for who we are instead of not reached is worth a line of its own.
    is_new = state != told_ || seen.authentication != told_authentication_;
    is_told = !is_new && seen.reason == told_reason_;
    told_ = state;
    told_reason_ = seen.reason;
    told_authentication_ = seen.authentication;
    // One that was wanted during this check is another.
    unchecked_ = check_wanted_;
  }
  if (seen.schema_version > 0) observer_.schema_version(seen.schema_version);
  log(state, seen, is_new);
  if (!is_told) observer_.state_changed(state, seen.reason);
  if (is_new)
    changed_();
  else
    confirmed_();
}

// With mutex_ held. While one recovery lasts it is the same at each check.
void Monitor::add_recovery(Observation& seen) const {
  if (!seen.reason.empty()) seen.reason += "; ";
  seen.reason +=
      availability_.why_recovering() + ": leases are not taken until workers had time to renew them";
}

// Of a database that is ready, whoever checks says what is amiss all the same.
void Monitor::log(State state, const Observation& seen, bool is_new) {
  const SteadyTime now = clock_.now();
  const bool is_other =
      state != State::ready && seen.reason != logged_reason_ && now - logged_at_ >= kBetweenReasons;
  if (!is_new && !is_other) return;
  log_change(state, seen);
  logged_reason_ = seen.reason;
  logged_at_ = now;
}

bool Monitor::is_recent() const {
  const std::lock_guard lock(mutex_);
  return availability_.is_recent(clock_.now());
}

bool Monitor::may_run() const {
  const std::lock_guard lock(mutex_);
  return !unchecked_ && availability_.may_run();
}

bool Monitor::may_take_leases() const {
  const std::lock_guard lock(mutex_);
  return !unchecked_ && availability_.may_take_leases(clock_.now());
}

std::optional<Milliseconds> Monitor::recovering_for() const {
  const std::lock_guard lock(mutex_);
  const SteadyTime now = clock_.now();
  const auto until = availability_.recovering_until();
  if (!until || *until <= now) return std::nullopt;
  return std::chrono::ceil<Milliseconds>(*until - now);
}

}  // namespace ff::supervisor
