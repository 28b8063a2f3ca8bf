#pragma once

#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/partition_choice.hpp"
#include "pg/pool.hpp"
#include "reconcile/storm.hpp"
#include "supervisor/observer.hpp"

namespace ff::daemon {

/// Remembers what the supervisor last said, so that /readyz, /status and the service manager can be answered
/// from memory. Safe from any thread.
class StatusBoard final : public supervisor::Observer {
 public:
  explicit StatusBoard(const Clock& clock) : clock_(clock), started_at_(clock.wall()) {}

  void tick_started(const supervisor::TickStart& start) override;
  void tick_finished(const supervisor::TickEvent& event) override;
  void state_changed(supervisor::State state, const std::string& reason) override;
  void schema_version(int version) override;
  void partitions(const Coverage& coverage);
  void pauses_changed(const std::vector<pause::Pause>& in_force) override;
  void pauses_unread(const std::string& why) override;
  /// It is listed from then on, whether or not it has run.
  void reconciler_enabled(const std::string& reconciler, bool enabled);

  supervisor::State state() const;
  bool ready() const { return supervisor::is_ready(state()); }
  /// A reconciler does not get on though the database is there: a privilege that is gone, a table that is locked.
  bool has_fault() const;
  /// {"ready": …, "state": …, "reasons": […]}. A fault is a reason, too, and alone takes nobody's readiness.
  std::string readiness_json() const;
  /// Everything that is remembered, the pool's state, and what the monitor knows of a recovery.
  std::string status_json(const pg::PoolState& pool, std::optional<UnixMillis> recovering_until = {},
                          const reconcile::StormView& storm = {}) const;
  /// One line for `systemctl status`.
  std::string line() const;

  /// Totals of one reconciler since the start.
  struct Totals {
    std::int64_t processed = 0;
    std::int64_t errors = 0;
    std::map<std::string, std::int64_t, std::less<>> outcomes;
    std::int64_t due = 0;  ///< left by the last scan
    bool more = false;     ///< it did not read all that is due: there are more than `due`
    std::optional<Milliseconds> worst_lateness{};  ///< of the last tick that moved rows
  };
  std::map<std::string, Totals, std::less<>> totals() const;

  /// From so many failed ticks in a row on a reconciler counts as failing: a single one may fail because of a conflict,
  /// or of a connection that broke.
  static constexpr int kFaultyFrom = 3;

  /// A tick that is under way.
  struct Running {
    UnixMillis since{};
    reconcile::Progress::Reading rows{};  ///< so far
  };
  /// What is known of one reconciler.
  struct Entry {
    bool enabled = true;
    Totals totals;
    UnixMillis last_tick{};
    UnixMillis last_success{};
    UnixMillis last_scan{};  ///< the last tick that saw all that was due
    std::string last_failure;
    int consecutive_failures = 0;
    reconcile::TickReport last;
    bool companions_more = false;    ///< their last scan did not read all that is due
    std::optional<Running> running;  ///< as it was when the entry was copied
  };
  /// Everything that is remembered, as it is at one moment.
  struct Snapshot {
    supervisor::State state = supervisor::State::starting;
    std::string reason;
    UnixMillis started_at{};
    int schema_version = 0;  ///< 0: not known, or not for the role to read
    std::optional<Coverage> coverage;
    std::map<std::string, Entry, std::less<>> reconcilers;
    std::vector<pause::Pause> pauses;
    std::string pauses_unread;  ///< why; empty: they are read
  };
  Snapshot snapshot() const;

 private:
  bool is_faulty(const std::string& reconciler) const;                  // under mutex_
  std::optional<Running> running(const std::string& reconciler) const;  // under mutex_

  const Clock& clock_;
  const UnixMillis started_at_;
  mutable std::mutex mutex_;
  supervisor::State state_ = supervisor::State::starting;
  std::string reason_ = "no answer from the database yet";
  int schema_version_ = 0;
  std::optional<Coverage> coverage_;
  std::map<std::string, Entry, std::less<>> reconcilers_;
  std::vector<pause::Pause> pauses_;
  std::string pauses_unread_;

  struct Tick {
    UnixMillis since;
    const reconcile::Progress* progress;
  };
  std::map<std::string, Tick, std::less<>> ticks_;  // those that are under way
};

/// Until when it is known that no row falls due but TickReport::next_due. Nothing: some partitions have much due, and what
/// falls due in them next was not seen, or nothing was scanned.
std::optional<UnixMillis> next_due_known_until(const StatusBoard::Entry& entry);

}  // namespace ff::daemon
