#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "page/chronicle.hpp"
#include "status_board.hpp"

namespace ff::daemon::page {

/// One reconciler, whether it is on or off, has run or not.
struct ReconcilerView {
  std::string name;
  bool enabled = true;
  std::optional<StatusBoard::Entry> seen;  ///< nothing: it has not run yet
  History::Steps history{};
  bool paused = false;
  std::optional<StatusBoard::Running> running{};  ///< a tick under way, the first one, too

  /// Rows that the last scan found due and that were not moved.
  std::int64_t left() const { return enabled && seen ? seen->totals.due : 0; }
  bool has_more() const { return enabled && seen && seen->last.more; }
  /// More is due than may be, and nobody has released it.
  bool held() const { return enabled && seen && reconcile::is_held(seen->last.hold); }
  /// Of the companions as well.
  bool reads_on() const { return has_more() || (enabled && seen && seen->companions_more); }
  std::size_t quarantined() const { return enabled && seen ? seen->last.quarantined : 0; }
};

/// Everything that the page shows, copied from memory at one moment. Texts are as they came, not escaped.
struct Model {
  UnixMillis now{};
  std::string version;
  std::string address;           ///< "http://127.0.0.1:9464"
  std::string database;          ///< "db1:5432/flowfabric as ff_reconciler"
  std::string config_file = {};  ///< an absolute path, or empty: the configuration is of no file
  bool alive = true;             ///< the scheduler makes progress
  StatusBoard::Snapshot board;
  UnixMillis state_since{};
  std::optional<UnixMillis> recovering_until = {};  ///< nothing: it is not, or its next check says so
  reconcile::StormView storm = {};
  std::vector<ReconcilerView> reconcilers;
  std::vector<Event> events;  ///< newest first
  pg::PoolState pool;
  std::string configuration;                  ///< YAML, secrets hidden
  bool configuration_refused = false;         ///< at the last reload
  std::vector<std::string> wanting_restart;   ///< keys that have changed and do not count yet
  std::optional<Milliseconds> renewed_every;  ///< the browser asks again by itself
};

/// For how long a row has been due, not less than nothing. A time before 1970 is no time: a difference from it might not
/// even fit.
Milliseconds waited(UnixMillis since, UnixMillis now);
/// The database's clock at the moment `now` of ours, as the reconciler's last scan saw it.
UnixMillis database_now(const StatusBoard::Entry& seen, UnixMillis now);
/// For how long the oldest row that was left over has been due; nothing where none was.
std::optional<Milliseconds> overdue(const ReconcilerView& view, UnixMillis now);

/// The same where it is worth telling: its rows have waited for longer than it takes to come to them, and are not just
/// those in quarantine, nor is it paused or held.
std::optional<Milliseconds> late_by(const ReconcilerView& view, UnixMillis now);

}  // namespace ff::daemon::page
