#pragma once

#include <memory>
#include <optional>

#include "lease/delivery.hpp"

namespace ff::lease {

class History;
class Stream;

/// One consumer's view of the lease history, made by History::subscribe(), which must outlive it. Destroying
/// it ends the subscription at once, whatever still waits in it; with the last one the connection goes.
/// Movable. One thread at a time, but for close() and cursor(), which are safe from any.
class Subscription {
 public:
  Subscription(Subscription&& other) noexcept;
  Subscription& operator=(Subscription&&) = delete;
  ~Subscription();

  /// The next event, or a notice between two of them. Waits at most until the deadline; nothing: it has
  /// passed, or the subscription is closed. Never throws for what happens to the database: the history
  /// reconnects for as long as it takes. Events come strictly by rising id, each once.
  std::optional<Delivery> next(SteadyTime deadline);

  /// Waits until the newest event of the beginning is known, up to which CaughtUp is told. Throws what keeps it from that: a
  /// pg::Error, or another std::exception. Returns, too, when the subscription is closed.
  void wait_until_begun();

  /// Behind everything that next() has returned or the filter refused: to go on from here in another life,
  /// pass its to_bytes() to subscribe().
  Cursor cursor() const;

  /// Ends a next() that waits, now and for good.
  void close();
  bool closed() const;

 private:
  friend class History;
  Subscription(History& history, std::shared_ptr<Stream> stream);

  History* history_;                // null: moved from
  std::shared_ptr<Stream> stream_;  // the reader's thread may be at work in it when the consumer lets go
};

}  // namespace ff::lease
