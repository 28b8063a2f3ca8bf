#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "pg/connect.hpp"

namespace ff::pg {

class Pool;

/// A connection on loan from a Pool: goes back when this ends, if it is idle, and is closed otherwise.
class PooledConnection {
 public:
  PooledConnection(PooledConnection&& other) noexcept;
  PooledConnection& operator=(PooledConnection&&) = delete;
  ~PooledConnection();

  Connection& operator*() { return *connection_; }
  Connection* operator->() { return &*connection_; }

 private:
  friend class Pool;
  PooledConnection(Pool& pool, std::uint64_t generation, Connection connection)
      : pool_(&pool), generation_(generation), connection_(std::move(connection)) {}
  Pool* pool_;
  std::uint64_t generation_;
  std::optional<Connection> connection_;
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
  /// Some that were idle have been ended by the server, and are not handed out: it may have been away. Told before
  /// whoever asked gets another.
  virtual void ended_by_server() {}
};

/// At most `size` connections, made when needed and shared by whoever asks. Safe from any thread.
class Pool {
 public:
  /// `interrupt` (may be null) ends every wait in the pool and on its connections; it, like `observer`, must
  /// outlive the pool.
  Pool(const Connector& connector, int size, Milliseconds acquire_timeout,
       const Interrupt* interrupt = nullptr, PoolObserver* observer = nullptr);
  ~Pool();

  /// Waits for a connection at most until the deadline (default: acquire_timeout from now), connecting if
  /// need be. Of those that are idle, one that has prepared the statement `familiar` is preferred, because
  /// its server process has planned it; then the one that has prepared least, so that each comes to serve a few.
  /// Throws Error: timeout, interrupted, or what connecting says.
  PooledConnection acquire(std::string_view familiar = {});
  PooledConnection acquire(SteadyTime deadline, std::string_view familiar = {});

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
    std::optional<Connection> idle;
    std::uint64_t generation;
    std::shared_ptr<const Interrupt> abandoned;
    bool some_ended;
  };
  Place take_idle_or_slot(SteadyTime deadline, std::string_view familiar);
  std::optional<Connection> take_idle(std::string_view familiar);
  void give_back(Connection connection, std::uint64_t generation);
  Connection connect(SteadyTime deadline);
  void give_up_slot();

  const Connector& connector_;
  const int size_;
  const Milliseconds acquire_timeout_;
  const Interrupt* interrupt_;
  PoolObserver* observer_;

  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::deque<Connection> idle_;   // the most recently used at the back
  std::uint64_t generation_ = 0;  // raised by discard_all: what was made before is closed, not kept
  std::shared_ptr<Interrupt> abandoned_ = std::make_shared<Interrupt>();  // of what is made from now on
  int in_use_ = 0;
  int waiting_ = 0;
};

}  // namespace ff::pg
