#include "pg/pool.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <system_error>

namespace ff::pg {
namespace {

// An Interrupt cannot notify a condition variable; whoever waits for a place looks at it this often.
constexpr Milliseconds kInterruptPoll{50};

// How long a server that has refused a further connection is left alone while there are some to wait for.
constexpr Milliseconds kAskAgain{2000};

// The turn before all others.
constexpr std::uint64_t kFirst = 0;

}  // namespace

PooledConnection::PooledConnection(PooledConnection&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      generation_(other.generation_),
      session_(std::exchange(other.session_, std::nullopt)) {}

PooledConnection::~PooledConnection() {
  if (pool_ != nullptr) pool_->give_back(std::move(*session_), generation_);
}

Pool::Pool(const Connector& connector, int size, Milliseconds acquire_timeout, const Interrupt* interrupt,
           PoolObserver* observer)
    : connector_(connector),
      size_(size),
      acquire_timeout_(acquire_timeout),
      interrupt_(interrupt),
      observer_(observer) {}

Pool::~Pool() = default;

PooledConnection Pool::acquire(std::string_view user) {
  return acquire(Clock::system().now() + acquire_timeout_, user);
}

PooledConnection Pool::acquire(SteadyTime deadline, std::string_view user) {
  return acquire_in(turns_++, deadline, user);
}

PooledConnection Pool::acquire_first() {
  return acquire_in(kFirst, Clock::system().now() + acquire_timeout_, {});
}

PooledConnection Pool::acquire_in(std::uint64_t turn, SteadyTime deadline, std::string_view user) {
  const auto started = Clock::system().now();
  for (;;) {
    auto [idle, generation, abandoned] = take_idle_or_slot(turn, deadline, user);
    std::optional<PooledSession> session = std::move(idle);
    const bool is_new = !session;
    const auto waited = Clock::system().now() - started;
    if (is_new) {
      std::optional<Connection> made = connect(deadline, turn == kFirst);
      if (!made) continue;
      made->abandoned_ = std::move(abandoned);
      session.emplace(PooledSession{std::move(*made)});
    }
    PooledConnection taken{*this, generation, std::move(*session)};
    ++taken.session_->users[std::string(user)];
    if (observer_ != nullptr) observer_->waited(waited);
    if (is_new && observer_ != nullptr) observer_->connected(nullptr);
    return taken;
  }
}

// Nothing: the server gives no more, and one that is on loan is to be waited for.
std::optional<Connection> Pool::connect(SteadyTime deadline, bool any_server) {
  try {
    Connection connection = connector_.connect(deadline, interrupt_);
    if (!any_server) refuse_other_server(connection);
    {
      const std::lock_guard lock(mutex_);
      --connecting_;
      refusal_.reset();
    }
    returned_.notify_all();
    return connection;
  } catch (const Error& error) {
    const bool is_to_wait = give_up_slot(&error);
    if (observer_ != nullptr) observer_->connected(&error);
    if (is_to_wait) return std::nullopt;
    throw;
  } catch (...) {
    give_up_slot(nullptr);
    throw;
  }
}

void Pool::keep_to(UnixMillis server_started_at) {
  const std::lock_guard lock(mutex_);
  server_ = server_started_at;
}

void Pool::refuse_other_server(Connection& connection) {
  {
    const std::lock_guard lock(mutex_);
    if (!server_ || server_ == connection.server_started_at()) return;
  }
  const std::string server = connection.server();
  connection.close();
  discard_all();
  if (observer_ != nullptr) observer_->server_in_doubt();
  throw Error(Error::Kind::connection, server + " is another server than the one that was checked last");
}

// Either an idle connection, or nothing and the right to make one; both count as in use.
Pool::Place Pool::take_idle_or_slot(std::uint64_t turn, SteadyTime deadline, std::string_view user) {
  std::unique_lock lock(mutex_);
  const auto mine = waiting_.insert(turn);
  const auto available = [&] { return mine == waiting_.begin() && (!idle_.empty() || may_connect()); };
  while (!available()) {
    const auto now = Clock::system().now();
    const bool interrupted = interrupt_ != nullptr && interrupt_->raised();
    if (interrupted || now >= deadline) {
      waiting_.erase(mine);
      returned_.notify_all();
      if (interrupted)
        throw Error(Error::Kind::interrupted, "interrupted while waiting for a connection of the pool");
      if (observer_ != nullptr) observer_->acquire_timed_out();
      throw why_none();
    }
    returned_.wait_until(lock, std::min<SteadyTime>(deadline, now + kInterruptPoll), available);
  }
  waiting_.erase(mine);
  if (!waiting_.empty()) returned_.notify_all();  // whose turn is next may have been woken too early
  ++in_use_;
  const bool some_ended =
      std::erase_if(idle_, [](const PooledSession& session) { return !session.connection.idle(); }) > 0;
  if (some_ended) refusal_.reset();
  // Before the mutex is free: nobody else connects until it is told.
  if (some_ended && observer_ != nullptr) observer_->server_in_doubt();
  std::optional<PooledSession> idle = take_idle(user);
  if (!idle) {
    ++connecting_;
    if (refusal_) refusal_->until = Clock::system().now() + kAskAgain;  // one at a time
  }
  return {std::move(idle), generation_, abandoned_};
}

// With mutex_ held, as the next two.
bool Pool::may_connect() const {
  if (in_use_ >= size_) return false;
  return !refusal_ || in_use_ == connecting_ || Clock::system().now() >= refusal_->until;
}

Error Pool::why_none() const {
  if (in_use_ < size_ && refusal_)
    return {Error::Kind::timeout,
            "all " + std::to_string(in_use_ - connecting_) +
                " connections that the server gives are in use: " + refusal_->error.what(),
            refusal_->error.sqlstate()};
  return {Error::Kind::timeout, "all " + std::to_string(size_) + " connections of the pool are in use"};
}

std::optional<PooledSession> Pool::take_idle(std::string_view user) {
  if (idle_.empty()) return std::nullopt;
  const auto times = [&](const PooledSession& session) {
    const auto found = session.users.find(user);
    return found == session.users.end() ? 0 : found->second;
  };
  const auto best = std::max_element(idle_.rbegin(), idle_.rend(), [&](const auto& a, const auto& b) {
    return std::pair(times(a), b.users.size()) < std::pair(times(b), a.users.size());
  });
  std::optional<PooledSession> session = std::move(*best);
  idle_.erase(std::prev(best.base()));
  return session;
}

void Pool::give_back(PooledSession session, std::uint64_t generation) {
  std::unique_lock lock(mutex_);
  if (session.connection.idle() && generation == generation_) {
    --in_use_;
    idle_.push_back(std::move(session));
  } else {
    lock.unlock();
    session.connection.close();  // first: the server may have no place for the next until then
    lock.lock();
    --in_use_;
    refusal_.reset();
  }
  lock.unlock();
  returned_.notify_all();
}

// `error`, or null: why it was of no use. True: the server has no place for more than those that are on loan.
bool Pool::give_up_slot(const Error* error) {
  bool is_to_wait = false;
  {
    const std::lock_guard lock(mutex_);
    --in_use_;
    --connecting_;
    refusal_.reset();
    if (error != nullptr && error->too_many_connections())
      refusal_.emplace(Refusal{*error, Clock::system().now() + kAskAgain});
    is_to_wait = refusal_ && (in_use_ > connecting_ || !idle_.empty());
  }
  returned_.notify_all();
  return is_to_wait;
}

void Pool::discard_all() {
  std::deque<PooledSession> closing;  // declared before the lock, so that closing does not happen under it
  const std::lock_guard lock(mutex_);
  ++generation_;
  closing.swap(idle_);
  refusal_.reset();
}

void Pool::abandon_all() {
  std::shared_ptr<Interrupt> next;
  try {
    next = std::make_shared<Interrupt>();
    cannot_abandon_ = false;
  } catch (const std::system_error& error) {
    if (!cannot_abandon_.exchange(true))
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
  return {static_cast<int>(idle_.size()), in_use_, size_, static_cast<int>(waiting_.size())};
}

}  // namespace ff::pg
