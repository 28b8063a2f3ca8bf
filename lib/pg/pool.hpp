#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "pg/connect.hpp"

namespace ff::pg {

class Pool;

/// A session of a Pool, and how often each of its users had it.
struct PooledSession {
  Connection connection;
  std::map<std::string, std::uint64_t, std::less<>> users{};
};

/// A connection on loan from a Pool: goes back when this ends, if it is idle, and is closed otherwise.
class PooledConnection {
 public:
  PooledConnection(PooledConnection&& other) noexcept;
  PooledConnection& operator=(PooledConnection&&) = delete;
  ~PooledConnection();

  Connection& operator*() { return session_->connection; }
  Connection* operator->() { return &session_->connection; }

 private:
  friend class Pool;
  PooledConnection(Pool& pool, std::uint64_t generation, PooledSession session)
      : pool_(&pool), generation_(generation), session_(std::move(session)) {}
  Pool* pool_;
  std::uint64_t generation_;
  std::optional<PooledSession> session_;
};

/// What a Pool tells of itself; every number is of now.
struct PoolState {
  int idle = 0;
  int in_use = 0;
  int size = 0;
  int waiting = 0;
};

/// Told of a pool's events, from the thread that caused them. Implementations must not call the pool.
class PoolObserver {
 public:
  virtual ~PoolObserver() = default;
  virtual void waited(std::chrono::duration<double> /*for_connection*/) {}
  virtual void acquire_timed_out() {}
  /// Null: connected.
  virtual void connected(const Error* /*failure*/) {}
  /// Some that were idle have been ended by the server, which may have been away, or a new one is on another server: none
  /// of them is handed out. Told before whoever asked gets another, or an Error.
  virtual void server_in_doubt() {}
};

/// At most `size` connections, and no more than the server gives, made when needed and shared by whoever asks. Who waits
/// gets one in turn: nobody is passed by those who come back for another at once. Safe from any thread.
class Pool {
 public:
  /// `interrupt` (may be null) ends every wait in the pool and on its connections; it, like `observer`, must
  /// outlive the pool.
  Pool(const Connector& connector, int size, Milliseconds acquire_timeout,
       const Interrupt* interrupt = nullptr, PoolObserver* observer = nullptr);
  ~Pool();

  /// Waits for a connection at most until the deadline (default: acquire_timeout from now), connecting if
  /// need be. Where the server has no place for a further one while some are on loan, one of these is waited for. Of those
  /// that are idle, a user gets the one that it had most often, because that has planned its statements; a new one that with
  /// the fewest users. So each comes to serve a few, and remembers their plans.
  /// Throws Error: timeout, interrupted, or what connecting says. A time-out with a SQLSTATE: the server gives no more.
  PooledConnection acquire(std::string_view user = {});
  PooledConnection acquire(SteadyTime deadline, std::string_view user = {});
  /// The same, before all others who wait: for whoever has to know soon whether the server is there.
  PooledConnection acquire_first();

  /// Only the server that was started then is meant, because somebody has looked at it: a new session that is on another
  /// is closed, and what is idle with it, so that acquire_first(), which takes any, meets what others would. Who asked gets
  /// an Error of kind connection.
  void keep_to(UnixMillis server_started_at);

  /// Closes what is idle, and what is on loan as it comes back: after the server changed or failed.
  void discard_all();
  /// The same, and nobody waits any longer for what was sent on those on loan, which ends with an Error of kind
  /// connection: after the server stood still, or where another has taken its place. Nothing is cancelled, for that would
  /// have to be asked of the same server.
  void abandon_all();

  PoolState state() const;

 private:
  friend class PooledConnection;
  struct Place {
    std::optional<PooledSession> idle;
    std::uint64_t generation;
    std::shared_ptr<const Interrupt> abandoned;
  };
  /// The server has no place for more than those on loan.
  struct Refusal {
    Error error;
    SteadyTime until;  // then one asks again: others may have left
  };
  PooledConnection acquire_in(std::uint64_t turn, SteadyTime deadline, std::string_view user);
  Place take_idle_or_slot(std::uint64_t turn, SteadyTime deadline, std::string_view user);
  bool may_connect() const;
  Error why_none() const;
  std::optional<PooledSession> take_idle(std::string_view user);
  void give_back(PooledSession session, std::uint64_t generation);
  std::optional<Connection> connect(SteadyTime deadline, bool any_server);
  void refuse_other_server(Connection& connection);
  bool give_up_slot(const Error* error);

  const Connector& connector_;
  const int size_;
  const Milliseconds acquire_timeout_;
  const Interrupt* interrupt_;
  PoolObserver* observer_;

  std::atomic<std::uint64_t> turns_ = 1;
  std::atomic<bool> cannot_abandon_ = false;  // which has been told
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::deque<PooledSession> idle_;  // the most recently used at the back
  std::uint64_t generation_ = 0;    // raised by discard_all: what was made before is closed, not kept
  std::shared_ptr<Interrupt> abandoned_ = std::make_shared<Interrupt>();  // of what is made from now on
  int in_use_ = 0;
  int connecting_ = 0;                // of these
  std::optional<UnixMillis> server_;  // the start of the one that is meant; nothing: any
  std::optional<Refusal> refusal_;
  std::multiset<std::uint64_t> waiting_;  // their turns; 0: before all others
};

}  // namespace ff::pg
