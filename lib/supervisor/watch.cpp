#include "supervisor/watch.hpp"

#include <spdlog/spdlog.h>

#include "supervisor/random.hpp"

namespace ff::supervisor {
namespace {

void log_change(State state, const Observation& seen) {
  switch (state) {
    case State::ready:
      return spdlog::info("database is writable: reconcilers run");
    case State::recovering:
      return spdlog::info("database is back: leases are not taken until workers had time to renew them");
    case State::schema_outdated:
      return spdlog::error("schema is not fit: {}", seen.reason);
    default:
      if (seen.authentication) return spdlog::critical("database refuses us: {}", seen.reason);
      return spdlog::warn("database is {}: {}", name(state), seen.reason);
  }
}

}  // namespace

Watch::Watch(Milliseconds recovery_grace, std::function<Observation()> look, Observer& observer,
             const Clock& clock)
    : look_(std::move(look)), observer_(observer), clock_(clock), availability_(recovery_grace) {}

Watch::~Watch() {
  stop();
}

void Watch::start(std::function<void()> changed) {
  changed_ = std::move(changed);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Watch::request_stop() { thread_.request_stop(); }

void Watch::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void Watch::doubt() {
  {
    const std::lock_guard lock(mutex_);
    doubted_ = true;
  }
  wake_.notify_all();
}

void Watch::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    look_once();
    std::unique_lock lock(mutex_);
    wake_.wait_until(lock, stop, availability_.next_look(clock_.now(), random_share()),
                     [&] { return doubted_; });
    doubted_ = false;
  }
}

void Watch::look_once() {
  const Observation seen = look_();
  State state;
  bool is_new;
  {
    const std::lock_guard lock(mutex_);
    availability_.observe(seen, clock_.now());
    state = availability_.state(clock_.now());
    is_new = state != told_;
    told_ = state;
  }
  if (seen.schema_version > 0) observer_.schema_version(seen.schema_version);
  if (!is_new) return;
  log_change(state, seen);
  observer_.state_changed(state, seen.reason);
  changed_();
}

bool Watch::may_run() const {
  const std::lock_guard lock(mutex_);
  return availability_.may_run();
}

bool Watch::may_take_leases() const {
  const std::lock_guard lock(mutex_);
  return availability_.may_take_leases(clock_.now());
}

State Watch::state() const {
  const std::lock_guard lock(mutex_);
  return availability_.state(clock_.now());
}

std::string Watch::reason() const {
  const std::lock_guard lock(mutex_);
  return availability_.reason();
}

}  // namespace ff::supervisor
