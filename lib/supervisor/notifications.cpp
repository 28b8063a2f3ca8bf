#include "supervisor/notifications.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "pg/server.hpp"
#include "supervisor/random.hpp"
#include "supervisor/schedule.hpp"

namespace ff::supervisor {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kConnectWithin = 10s;
constexpr Milliseconds kTrialWithin = 5s;
constexpr Milliseconds kTrialAgain = 1min;
constexpr Milliseconds kAskAgain = 15s;
// Notifications that come in a storm are heard this often.
constexpr Milliseconds kBetweenWakes = 50ms;

// Not where the session is lent by a pooler, which would hand it on like this. Servers know it from PostgreSQL 14 on.
constexpr std::string_view kMayBeIdle = R"sql(
SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout' AND setting <> '0')sql";

SteadyTime in(Milliseconds time) {
  return Clock::system().now() + time;
}

}  // namespace

Notifications::Notifications(const pg::Connector& connector, std::vector<std::string> channels,
                             OnHeard on_heard)
    : connector_(connector), channels_(std::move(channels)), on_heard_(std::move(on_heard)) {}

Notifications::~Notifications() {
  stop();
}

void Notifications::start() {
  thread_ = std::jthread([this] { run(); });
}

void Notifications::stop() {
  interrupt_.raise();
  if (thread_.joinable()) thread_.join();
}

void Notifications::renew() {
  {
    const std::lock_guard lock(mutex_);
    server_.reset();  // whichever answers now is told by server_is()
  }
  begin_anew();
}

void Notifications::begin_anew() {
  {
    const std::lock_guard lock(mutex_);
    ++renewals_;
    listening_since_.reset();
  }
  renewal_.raise();
}

void Notifications::server_is(UnixMillis started_at) {
  {
    const std::lock_guard lock(mutex_);
    const bool has_changed = server_ && *server_ != started_at;
    server_ = started_at;
    const bool is_elsewhere = listening_since_ && listening_to_ != server_;
    if (!has_changed && !is_elsewhere) return;
  }
  begin_anew();
}

bool Notifications::none_since(std::string_view channel, SteadyTime since) const {
  const std::lock_guard lock(mutex_);
  if (!listening_since_ || *listening_since_ > since) return false;
  const auto heard = last_heard_.find(channel);
  return heard == last_heard_.end() || heard->second < since;
}

// The thread.
void Notifications::run() {
  while (!interrupt_.raised()) {
    bool refused = false;
    try {
      listen();
      continue;
    } catch (const pg::Error& error) {
      if (error.interrupted()) return;
      refused = error.authentication();
      deaf(error.what());
    } catch (const std::exception& error) {
      deaf(std::string("internal error: ") + error.what());
    }
    if (!pause(reconnect_delay(++failures_, refused, random_share()))) return;
  }
}

// From one connection to the wish for another. The channels are asked for once a trial was heard: a pooler would
// leave the session that it lends us listening, for whoever gets it next.
void Notifications::listen() {
  const int wanted = renewals();
  pg::Listener listener(connector_.connect(in(kConnectWithin), &interrupt_));
  refuse_other_server(listener.connection());
  pg::Connection other = connector_.connect(in(kConnectWithin), &interrupt_);
  refuse_other_server(other);
  const bool hears = listener.hears(other, in(kTrialWithin), renewal_);
  other.close();
  if (!still_wanted(wanted)) return;
  if (!hears) {
    deaf("none arrives, as behind a pooler in transaction mode");
    pause(kTrialAgain);
    return;
  }
  // It says nothing for long, and a limit would end it again and again.
  listener.connection().execute(kMayBeIdle);
  listener.listen(channels_);
  {
    const std::lock_guard lock(mutex_);
    if (renewals_ != wanted || !is_meant(listener.connection())) return;
    listening_since_ = Clock::system().now();
    listening_to_ = listener.connection().server_started_at();
  }
  if (!why_deaf_.empty()) spdlog::info("notifications are heard again");
  why_deaf_.clear();
  failures_ = 0;
  hear(listener, wanted);
}

// Nobody sends anything over an idle session, and so nobody notices that it is dead, or that its server takes no
// writes any more: asked now and then, it says so.
void Notifications::hear(pg::Listener& listener, int wanted) {
  while (still_wanted(wanted)) {
    const auto heard = listener.wait(in(kAskAgain), renewal_);
    if (heard.empty() && !pg::server_info(listener.connection()).writable)
      throw pg::Error(pg::Error::Kind::not_writable,
                      listener.connection().description() + " takes no writes");
    {
      const std::lock_guard lock(mutex_);
      for (const std::string& channel : heard) last_heard_[channel] = Clock::system().now();
    }
    if (on_heard_) std::ranges::for_each(heard, on_heard_);
    pause(kBetweenWakes);
  }
}

// Silence there says nothing of the one that the reconcilers work on. Behind a name, or among several hosts, there may be two
// that take writes.
void Notifications::refuse_other_server(const pg::Connection& connection) const {
  const std::lock_guard lock(mutex_);
  if (!is_meant(connection))
    throw pg::Error(pg::Error::Kind::connection,
                    connection.server() + " is another server than the reconcilers'");
}

bool Notifications::is_meant(const pg::Connection& connection) const {
  return !server_ || server_ == connection.server_started_at();
}

// Cut short by renew(). False: it has to end.
bool Notifications::pause(Milliseconds length) {
  try {
    renewal_.wait(in(length), &interrupt_);
  } catch (const pg::Error&) {
    return false;
  }
  return true;
}

int Notifications::renewals() const {
  const std::lock_guard lock(mutex_);
  return renewals_;
}

bool Notifications::still_wanted(int renewals) const {
  const std::lock_guard lock(mutex_);
  return renewals_ == renewals;
}

// That the database is away is the monitor's to say, loudly.
void Notifications::deaf(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    listening_since_.reset();
  }
  if (why != why_deaf_)
    spdlog::info("notifications are not heard, so every reconciler scans at each interval: {}", why);
  why_deaf_ = why;
}

}  // namespace ff::supervisor
