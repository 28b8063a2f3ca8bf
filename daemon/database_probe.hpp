#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/partition_choice.hpp"
#include "pg/pool.hpp"
#include "pg/server.hpp"
#include "supervisor/availability.hpp"

namespace ff::daemon {

/// The check of the supervisor's monitor: can it be reached, does it take writes, is it the server
/// of before, is its schema fit, and are the partitions there that are to be looked after. The schema is verified
/// when the server is a new one or was not fit, when somebody doubts it, when ff_attempt or ff_exec_core has more or fewer hash
/// children than it had then, and every few minutes; these and the partitions are counted at each check: somebody may detach
/// some, or add some.
/// One thread at a time, but for doubt_schema() and doubt_locks().
class DatabaseProbe {
 public:
  using OnError = std::function<void(const pg::Error&)>;
  using OnCoverage = std::function<void(const Coverage&)>;
  using AlsoRead = std::function<void(pg::Connection&)>;
  using OnServer = std::function<void(UnixMillis started_at)>;
  /// It takes some twenty statements over the catalog: a quarter of a second at 256 hash children.
  static constexpr Milliseconds kVerifyAgain{300'000};
  /// Whoever doubts it is heard this often.
  static constexpr Milliseconds kDoubtAgain{30'000};

  /// `on_error` is told of what the pool does not tell its own observer: whatever fails over a connection.
  /// `on_connection_lost` is called before a connection that broke, is to another server than before, or of a role that was
  /// dropped, is replaced: until this check is over, nobody should act on what may be another server.
  /// `on_coverage` is called when what the choice comes to is known or has changed, before the check that found
  /// it says that anybody may run.
  /// `also_read` is lent the connection once the server has been found fit, before anybody may run. It does not throw,
  /// and whatever it meets is no outage.
  /// `on_server` is told at each check which server it is, by its start.
  /// `verify_again`: after so long a schema that was fit is verified anew.
  DatabaseProbe(pg::Pool& pool, PartitionChoice partitions, OnError on_error,
                std::function<void()> on_connection_lost, OnCoverage on_coverage, AlsoRead also_read = {},
                OnServer on_server = {}, Milliseconds verify_again = kVerifyAgain)
      : pool_(pool),
        partitions_(std::move(partitions)),
        on_error_(std::move(on_error)),
        on_connection_lost_(std::move(on_connection_lost)),
        on_coverage_(std::move(on_coverage)),
        also_read_(std::move(also_read)),
        on_server_(std::move(on_server)),
        verify_again_(verify_again) {}

  supervisor::Observation operator()();

  /// A statement failed as it does where the schema is not what it was: the next check verifies it, and sessions that have
  /// planned for what was there before are replaced. True: it should come soon. Safe from any thread.
  bool doubt_schema();
  /// A statement over leases has met a lock, or may have: each check looks for one that keeps workers from renewing, until none is
  /// there. Safe from any thread.
  void doubt_locks() { are_locks_doubted_ = true; }

 private:
  supervisor::Observation probe();
  pg::PooledConnection acquire();
  void give_up_sessions(pg::Connection& connection);
  void meet(const pg::Connection& connection, const pg::ServerInfo& server, supervisor::Observation& seen);
  pg::ServerInfo server_info(pg::Connection& connection);
  std::optional<pg::ServerInfo> ask(pg::PooledConnection& connection);
  pg::ServerInfo ask_anew(std::optional<pg::PooledConnection>& connection);
  void look_at_schema(pg::Connection& connection, supervisor::Observation& seen);
  void verify_schema(pg::Connection& connection, supervisor::Observation& seen);
  std::string count_children(pg::Connection& connection);
  bool has_other_children(pg::Connection& connection);
  void verify_in_time(pg::Connection& connection, supervisor::Observation& seen);
  void look_at_locks(pg::Connection& connection, supervisor::Observation& seen);
  void count_partitions(pg::Connection& connection, supervisor::Observation& seen);
  void keep_count(pg::Connection& connection, const pg::Error& error, supervisor::Observation& seen);

  pg::Pool& pool_;
  const PartitionChoice partitions_;
  const OnError on_error_;
  const std::function<void()> on_connection_lost_;
  const OnCoverage on_coverage_;
  const AlsoRead also_read_;
  const OnServer on_server_;
  const Milliseconds verify_again_;
  std::optional<reconcile::TimeReading> reading_;
  bool is_connected_ = false;              // in this check
  bool has_answered_ = false;              // a server, in this check
  std::optional<UnixMillis> last_server_;  // the start of the server that was met last
  SteadyTime told_of_another_{};           // as logged: where two answer in turns, once a minute
  SteadyTime told_of_role_{};              // likewise: of one that was dropped
  std::optional<UnixMillis> verified_on_;  // the start of the server whose schema was found fit
  SteadyTime verified_at_{};
  std::string children_;                  // as they were counted then; empty: not known
  std::atomic<bool> is_doubted_ = false;  // the schema, since the last check
  std::atomic<bool> are_locks_doubted_ = false;
  std::atomic<SteadyTime::rep> doubted_at_ =
      (SteadyTime::clock::now() - kDoubtAgain).time_since_epoch().count();
  std::vector<std::string> warned_of_;  // in the schema that was verified last
  int schema_version_ = 0;
  std::optional<Coverage> coverage_;
  std::string why_uncounted_;  // as logged; empty while they are counted
};

}  // namespace ff::daemon
