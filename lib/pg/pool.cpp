#include "pg/pool.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <system_error>

namespace ff::pg {
namespace {

// An Interrupt cannot notify a condition variable; whoever waits for a place looks at it this often.
constexpr Milliseconds kInterruptPoll{50};

}  // namespace

PooledConnection::PooledConnection(PooledConnection&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      generation_(other.generation_),
      connection_(std::exchange(other.connection_, std::nullopt)) {}

PooledConnection::~PooledConnection() {
  if (pool_ != nullptr) pool_->give_back(std::move(*connection_), generation_);
}

Pool::Pool(const Connector& connector, int size, Milliseconds acquire_timeout, const Interrupt* interrupt,
           PoolObserver* observer)
    : connector_(connector),
      size_(size),
      acquire_timeout_(acquire_timeout),
      interrupt_(interrupt),
      observer_(observer) {}

Pool::~Pool() = default;

PooledConnection Pool::acquire(std::string_view familiar) {
  return acquire(Clock::system().now() + acquire_timeout_, familiar);
}

PooledConnection Pool::acquire(SteadyTime deadline, std::string_view familiar) {
  const auto started = Clock::system().now();
  auto [idle, generation, abandoned, some_ended] = take_idle_or_slot(deadline, familiar);
  if (observer_ != nullptr) observer_->waited(Clock::system().now() - started);
  if (observer_ != nullptr && some_ended) observer_->ended_by_server();
  if (idle) return {*this, generation, std::move(*idle)};
  PooledConnection connected{*this, generation, connect(deadline)};
  connected->abandoned_ = std::move(abandoned);
  if (observer_ != nullptr) observer_->connected(nullptr);
  return connected;
}

Connection Pool::connect(SteadyTime deadline) {
  try {
    return connector_.connect(deadline, interrupt_);
  } catch (const Error& error) {
    give_up_slot();
    if (observer_ != nullptr) observer_->connected(&error);
    throw;
  } catch (...) {
    give_up_slot();
    throw;
  }
}

// Either an idle connection, or nothing and the right to make one; both count as in use.
Pool::Place Pool::take_idle_or_slot(SteadyTime deadline, std::string_view familiar) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  const auto available = [&] { return !idle_.empty() || in_use_ < size_; };
  while (!available()) {
    const auto now = Clock::system().now();
    const bool interrupted = interrupt_ != nullptr && interrupt_->raised();
    if (interrupted || now >= deadline) {
      --waiting_;
      if (interrupted)
        throw Error(Error::Kind::interrupted, "interrupted while waiting for a connection of the pool");
      if (observer_ != nullptr) observer_->acquire_timed_out();
      throw Error(Error::Kind::timeout,
                  "all " + std::to_string(size_) + " connections of the pool are in use");
    }
    returned_.wait_until(lock, std::min<SteadyTime>(deadline, now + kInterruptPoll), available);
  }
  --waiting_;
  ++in_use_;
  const bool some_ended =
      std::erase_if(idle_, [](const Connection& connection) { return !connection.idle(); }) > 0;
  return {take_idle(familiar), generation_, abandoned_, some_ended};
}

// With mutex_ held.
std::optional<Connection> Pool::take_idle(std::string_view familiar) {
  if (idle_.empty()) return std::nullopt;
  auto best = std::find_if(idle_.rbegin(), idle_.rend(),
                           [&](const Connection& connection) { return connection.has_prepared(familiar); });
  if (best == idle_.rend())
    best = std::min_element(idle_.rbegin(), idle_.rend(),
                            [](const auto& a, const auto& b) { return a.prepared() < b.prepared(); });
  std::optional<Connection> connection = std::move(*best);
  idle_.erase(std::prev(best.base()));
  return connection;
}

void Pool::give_back(Connection connection, std::uint64_t generation) {
  {
    const std::lock_guard lock(mutex_);
    --in_use_;
    if (connection.idle() && generation == generation_) idle_.push_back(std::move(connection));
  }
  returned_.notify_one();
}

void Pool::give_up_slot() {
  {
    const std::lock_guard lock(mutex_);
    --in_use_;
  }
  returned_.notify_one();
}

void Pool::discard_all() {
  std::deque<Connection> closing;  // declared before the lock, so that closing does not happen under it
  const std::lock_guard lock(mutex_);
  ++generation_;
  closing.swap(idle_);
}

void Pool::abandon_all() {
  std::shared_ptr<Interrupt> next;
  try {
    next = std::make_shared<Interrupt>();
  } catch (const std::system_error& error) {
    spdlog::warn("connections made from now on will be waited for to the end: {}", error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    abandoned_.swap(next);
  }
  if (next) next->raise();
  discard_all();
}

PoolState Pool::state() const {
  const std::lock_guard lock(mutex_);
  return {static_cast<int>(idle_.size()), in_use_, size_, waiting_};
}

}  // namespace ff::pg
