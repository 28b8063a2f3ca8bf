#include "lease/history.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace ff::lease {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kFirstPause = 200ms;
constexpr Milliseconds kLongestPause = 5s;
constexpr Milliseconds kLogAgain = 60s;
constexpr Milliseconds kConnectWithin = 10s;  // all hosts together

SteadyTime now() {
  return Clock::system().now();
}

}  // namespace

Subscription::Subscription(History& history, std::shared_ptr<Stream> stream)
    : history_(&history), stream_(std::move(stream)) {}

Subscription::Subscription(Subscription&& other) noexcept
    : history_(std::exchange(other.history_, nullptr)), stream_(std::move(other.stream_)) {}

Subscription::~Subscription() {
  if (history_ != nullptr) history_->unsubscribe(*stream_);
}

std::optional<Delivery> Subscription::next(SteadyTime deadline) {
  return stream_->next(deadline);
}
Cursor Subscription::cursor() const {
  return stream_->cursor();
}
void Subscription::close() {
  stream_->close();
}
void Subscription::wait_until_begun() {
  stream_->wait_until_begun();
}
bool Subscription::closed() const {
  return stream_->closed();
}

History::History(const pg::Connector& connector, Options options)
    : connector_(connector),
      options_(options),
      observer_(options.observer != nullptr ? *options.observer : deaf_),
      reader_(options.warn_after, observer_, Clock::system()),
      pause_(kFirstPause),
      thread_([this] { live(); }) {}

History::~History() {
  interrupt_.raise();
}

Subscription History::subscribe(const Request& request) {
  const auto start = parse_cursor(request.after);
  auto stream = std::make_shared<Stream>(request.partition, start, request.filter, wake_, observer_);
  Subscription subscription(*this, stream);
  {
    const std::lock_guard lock(mutex_);
    streams_.push_back(stream);
  }
  wake_.raise();
  if (!start && request.begins_now) stream->wait_until_begun();
  return subscription;
}

void History::unsubscribe(const Stream& stream) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(streams_, [&](const auto& each) { return each.get() == &stream; });
  }
  wake_.raise();
}

Streams History::streams() {
  const std::lock_guard lock(mutex_);
  return streams_;
}

// The thread: ends only when the interrupt is raised, which every wait in it answers to.
void History::live() {
  while (!interrupt_.raised()) {
    try {
      wait_for_subscriptions();
      serve_connection();
    } catch (const pg::Error& error) {
      if (!error.interrupted()) report_failure(error);
    } catch (const std::exception& error) {  // an answer that does not read as it should
      report_failure(error);
    }
  }
}

void History::wait_for_subscriptions() {
  while (streams().empty()) {
    connected_ = lost_ = false;
    observer_.lease_history_held_back(0ms);
    wake_.wait(now() + 1h, &interrupt_);
  }
}

// From one connection to its end, or to that of the last subscription.
void History::serve_connection() {
  pg::Listener listener(connector_.connect(now() + kConnectWithin, &interrupt_));
  listener.listen({kChannel});
  reader_.connection_changed();
  for (bool first = true;; first = false) {
    const Streams all = streams();
    if (all.empty()) return;
    const auto again = reader_.pass(listener.connection(), all);
    if (first) reconnected();
    const auto wait = std::min(again.value_or(options_.poll_interval), options_.poll_interval);
    listener.wait(now() + wait,
                  wake_);  // takes notifications off the queue even when there is no time to wait
  }
}

void History::reconnected() {
  connected_ = true;
  pause_ = kFirstPause;
  failing_logged_at_.reset();
  if (!std::exchange(lost_, false)) return;
  observer_.lease_history_reconnected();
  spdlog::info("lease history: connected again");
}

void History::report_failure(const std::exception& error) {
  for (const auto& stream : streams()) stream->fail(std::current_exception());
  if (std::exchange(connected_, false)) lost_ = true;
  if (!failing_logged_at_ || now() - *failing_logged_at_ >= kLogAgain) {
    spdlog::warn("lease history: {}; trying again ({} more failures since the last such line)", error.what(),
                 std::exchange(failures_unlogged_, 0));
    failing_logged_at_ = now();
  } else {
    ++failures_unlogged_;
  }
  try {
    wake_.wait(now() + pause_, &interrupt_);
  } catch (const pg::Error&) {
    return;  // interrupted: live() sees it, too
  }
  pause_ = std::min(2 * pause_, kLongestPause);
}

}  // namespace ff::lease
