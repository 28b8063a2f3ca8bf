#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "lease/event.hpp"
#include "lease/frontier.hpp"
#include "lease/outbox.hpp"
#include "pg/connection.hpp"

/// Everything that is asked of the database for the lease history: each function is one statement in a
/// transaction of its own. All throw pg::Error.
namespace ff::lease {

/// What the role may ask, and how the outbox draws its ids.
struct Means {
  /// pg_locks may be read. Where somebody took that away, all transactions with an id are waited for instead.
  bool locks = false;
  /// The sequence that the ids come from, as SQL names it; nothing: there is none that may be read.
  std::optional<std::string> sequence{};
  /// The sequence gives each session a stock of ids in advance (CACHE above 1): then a session may use a low id
  /// in a transaction that started long after a higher one was seen, and nothing here can know.
  bool ids_are_stocked = false;
};
Means means(pg::Connection& connection);

/// What the outbox says of itself, in one snapshot.
struct OutboxHead {
  Fingerprint newest;                      ///< the visible event with the highest id; 0: there is none
  std::optional<std::int64_t> known_hash;  ///< of what has the id that was asked for; nothing: nothing has
  std::optional<std::int64_t> drawn;       ///< the last id that was drawn; nothing: `means` has no sequence
};
/// Throws pg::Error not_writable on a standby, where nobody can know who is writing on the primary.
OutboxHead read_head(pg::Connection& connection, const Means& means, std::int64_t known);

/// Who has written to the outbox and may commit yet: not in the snapshot of an earlier statement, whole in that
/// of a later one.
Writers read_writers(pg::Connection& connection);

/// In their place where pg_locks may not be read: of the marks in `awaited`, those that some open transaction
/// lies below, and with `mark` a new one. A mark is a transaction id that is taken after all that was seen, so
/// that whoever held one by then lies below it: that is everybody who has written, but for a transaction whose
/// first write is the event itself. pg_snapshot_xmax would not do: it is one past the last transaction that has
/// ENDED, and the one in the way may have started after that.
Writers read_marks(pg::Connection& connection, const Writers& awaited, bool mark);

/// Ids from the first to the last, both included.
struct IdRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Which ids behind `after`, up to and including `up_to`, no visible event has: those of open transactions are among them.
/// Rising.
std::vector<IdRange> read_absent(pg::Connection& connection, std::int64_t after, std::int64_t up_to);

/// Which part of the outbox to read: events after `after`, of one partition or of all.
struct Stretch {
  std::optional<PartitionKey> partition;
  std::int64_t after = 0;
};

/// The rows of each stretch up to and including `up_to`, by rising event id, at most `most` of each.
/// Stretches that name a partition share a round trip.
std::vector<std::vector<OutboxRow>> read(pg::Connection& connection, const std::vector<Stretch>& stretches,
                                         std::int64_t up_to, std::int64_t most);

/// Who the oldest of these writers is, for people: pid, application, state and age. Where `means` has no locks,
/// who has the oldest transaction with an id.
std::string describe_oldest(pg::Connection& connection, const Means& means, const Writers& writers);

}  // namespace ff::lease
