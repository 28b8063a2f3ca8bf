#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/scanner_filter.hpp"
#include "lease/history_reader.hpp"
#include "lease/subscription.hpp"
#include "pg/connect.hpp"
#include "pg/listener.hpp"

namespace ff::lease {

/// The lease history of a database, for any number of subscriptions over one thread and one connection:
///
///     lease::History history(connector);
///     auto subscription = history.subscribe({.partition = {{7}}, .after = saved_cursor_bytes});
///     while (auto delivery = subscription.next(Clock::system().now() + 1s)) { … }
///
/// The thread reads when the outbox's trigger notifies, and each `poll_interval` besides, because a
/// notification can get lost (half-open socket, a pooler in transaction mode) and must not take an event with
/// it. When the connection breaks, consumers are told and it is made anew after 200 ms, doubling to 5 s;
/// nothing is lost or repeated.
///
/// Which events are delivered, and when: see Frontier. A transaction that has written to `ff_lease_event` and
/// stays open holds back the events that were written since; the observer and the log tell.
class History {
 public:
  struct Options {
    Milliseconds poll_interval{5000};
    /// How long events may be held back before the log names the transaction in the way.
    Milliseconds warn_after{10000};
    /// Null, or outlives the history.
    HistoryObserver* observer = nullptr;
  };

  /// Does not connect. The connector must outlive this.
  explicit History(const pg::Connector& connector, Options options);
  explicit History(const pg::Connector& connector) : History(connector, Options{}) {}
  /// Ends the thread and the connection; a statement under way is cancelled.
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  struct Request {
    /// Nothing: all partitions as one stream, still by rising event id.
    std::optional<PartitionKey> partition{};
    /// The bytes of a Cursor: events strictly behind it. Empty: all that is committed after this moment, also with an id
    /// below the newest one (of the last 100,000 ids). cursor() is below these until their transactions have ended, so that
    /// who goes on from it misses none of them, and may get what was there at this moment.
    std::string after{};
    ScannerFilter filter{};
    /// Without a cursor: subscribe() asks for the newest event, and throws pg::Error when it cannot. If not, it returns at
    /// once, and the moment is when the database is first reached.
    bool begins_now = true;
  };

  /// Safe from any thread. Throws InvalidCursor before anything is started. With a cursor it returns at once,
  /// whether the database can be reached or not; with none see `begins_now`.
  Subscription subscribe(const Request& request);

 private:
  friend class Subscription;

  void unsubscribe(const Stream& stream);
  Streams streams();
  void live();
  void wait_for_subscriptions();
  void serve_connection();
  void reconnected();
  void report_failure(const std::exception& error);

  const pg::Connector& connector_;
  const Options options_;
  HistoryObserver deaf_;  // stands in for an observer
  HistoryObserver& observer_;
  pg::Interrupt interrupt_;
  pg::Wake wake_;
  std::mutex mutex_;
  Streams streams_;  // guarded by mutex_

  // The thread's own.
  HistoryReader reader_;
  bool connected_ = false;  // consumers count on it
  bool lost_ = false;       // and were told that it is gone
  Milliseconds pause_;
  std::optional<SteadyTime> failing_logged_at_;
  int failures_unlogged_ = 0;

  std::jthread thread_;  // last: it uses all the others
};

}  // namespace ff::lease
