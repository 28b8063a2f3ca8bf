#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lease/frontier.hpp"
#include "lease/id_watch.hpp"
#include "lease/observer.hpp"
#include "lease/outbox_reader.hpp"
#include "lease/stream.hpp"
#include "pg/connection.hpp"

namespace ff::lease {

/// Streams belong to a consumer and to the reader's thread at once; whoever lets go last destroys it.
using Streams = std::vector<std::shared_ptr<Stream>>;

/// Reads the outbox for all subscriptions of a process, one pass at a time; who calls it, and when, is left
/// to the owner of the thread. One thread at a time.
class HistoryReader {
 public:
  /// `warn_after`: how long an event may be held back before the log names the transaction in the way, and
  /// then again each minute. Observer and clock must outlive this.
  HistoryReader(Milliseconds warn_after, HistoryObserver& observer, const Clock& clock);

  /// Looks at the outbox once and gives each stream what is settled and fits. Returns after what time the
  /// next pass may find more if nobody wakes us before; nothing: only a new event can make a difference.
  /// Throws pg::Error; every stream is then where its last delivery left it.
  std::optional<Milliseconds> pass(pg::Connection& connection, const Streams& streams);

  /// To be called after each change of the connection.
  void connection_changed();

 private:
  const Means& means_of(pg::Connection& connection);
  OutboxHead look(pg::Connection& connection);
  std::optional<Writers> writers(pg::Connection& connection, std::int64_t newest);
  void begin(pg::Connection& connection, const Streams& streams, const OutboxHead& seen);
  bool deliver(pg::Connection& connection, const Streams& streams);
  std::optional<Milliseconds> held_back(pg::Connection& connection, std::int64_t newest);

  const Milliseconds warn_after_;
  HistoryObserver& observer_;
  const Clock& clock_;
  std::optional<Means> means_;                 // of this connection
  Means said_{.locks = true, .sequence = ""};  // as the log was told
  Frontier frontier_;
  IdWatch ids_;
  std::optional<SteadyTime> warned_at_;
};

}  // namespace ff::lease
