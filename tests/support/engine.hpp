#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pg/pool.hpp"
#include "reconcile/engine.hpp"
#include "reconcile/family/registry.hpp"
#include "supervisor/thread_fork_join.hpp"
#include "support/database.hpp"
#include "support/manual_clock.hpp"
#include "support/rows.hpp"

namespace ff::test {

/// The partitions that an EngineFixture looks at unless told otherwise: 0 to 15.
const Partitions& sixteen_partitions();

struct EngineOptions {
  Partitions partitions = sixteen_partitions();
  ScannerFilter filter{};
  int batch_size = 1000;
  /// Beside the declared defaults.
  Settings settings{};
  /// Reconcilers that run beside it, with settings beside their defaults.
  std::map<std::string, Settings> together_with{};
  /// For how long rows have to have stood still, of reconcilers that ask for it: at once is enough, unless told otherwise.
  std::optional<Milliseconds> still_for{0};
  /// As with storm control.
  bool delays_reclaims = false;
  Milliseconds statement_timeout{10'000};
  int pool_size = 1;
  /// Threads that may help a tick; they want connections, too.
  int spare_threads = 0;
  /// Instead of the fixture's own.
  const Clock* clock = nullptr;
  /// For the stages that tick once: see stepping_in().
  std::function<void()> before_acting{};
};

/// An engine for one reconciler with a pool and a clock of its own: `engine->tick()`.
class EngineFixture {
 public:
  EngineFixture(const Database& database, std::string_view reconciler, const EngineOptions& options = {});
  EngineFixture(const Database& database, const reconcile::Reconciler& reconciler,
                const EngineOptions& options = {});
  /// Over any other database.
  EngineFixture(const pg::Connector& database, std::string_view reconciler,
                const EngineOptions& options = {});
  EngineFixture(const pg::Connector& database, const reconcile::Reconciler& reconciler,
                const EngineOptions& options = {});

  reconcile::Engine* operator->() { return &engine_; }
  reconcile::Engine& operator*() { return engine_; }
  pg::Pool& pool() { return pool_; }
  ManualClock& clock() { return clock_; }

 private:
  ManualClock clock_;
  pg::Connector connector_;
  pg::Pool pool_;
  supervisor::ThreadForkJoin fork_join_;
  reconcile::Engine engine_;
};

/// A tick in which somebody else steps in, once, when the engine has read what is due and is about to act.
reconcile::TickOptions stepping_in(std::function<void()> step_in);

/// The machine's clock, which a test moves on.
class ShiftedClock final : public Clock {
 public:
  SteadyTime now() const override { return Clock::system().now() + shift; }
  UnixMillis wall() const override { return Clock::system().wall(); }
  Milliseconds shift{0};
};

/// A clock that does something each time it is asked the time, so that a test sees how far the engine has come
/// without counting.
class WatchingClock final : public Clock {
 public:
  explicit WatchingClock(std::function<void()> watch) : watch_(std::move(watch)) {}
  SteadyTime now() const override;
  UnixMillis wall() const override { return unix_millis(0); }

 private:
  const std::function<void()> watch_;
};

/// Filters for a namespace, for the tag cairn.instance_id, and for both.
ScannerFilter for_namespace(const std::string& name_space);
ScannerFilter for_tag(const std::string& value);
ScannerFilter for_both(const std::string& name_space, const ScannerFilter::Tag& tag);

/// The declared defaults of the reconciler of this name with some of them replaced.
Settings settings_of(std::string_view reconciler, const Settings& replaced = {});

/// The parameters that every statement of a reconciler begins with: see reconcile::Statements.
pg::Params leading_params(const reconcile::Reconciler& reconciler, const Partitions& partitions,
                          const ScannerFilter& filter = {}, const Settings& settings = {},
                          const reconcile::Family& family = {}, const std::optional<pg::Params>& told = {});

/// The parameters that a pair has to find out first, as by hand; nothing where there are none.
std::optional<pg::Params> found_out(pg::Connection& connection, const reconcile::Reconciler& reconciler);

/// Calls `act` for these rows, whether a scan would find them or not, and commits. Returns the outcomes.
std::vector<std::string> act_on(pg::Connection& connection, const reconcile::Reconciler& reconciler,
                                const std::vector<reconcile::RowKey>& rows, const ScannerFilter& filter = {});

/// The key of an attempt as attempt_timeout and lease_expiry name it.
reconcile::RowKey attempt_key(PartitionKey partition, const Uuid& execution, int attempt_index = 0);

/// An execution and its current attempt, whose lease lapsed a second ago unless `attempt` says otherwise;
/// partition, execution and index of the attempt are those of the core row. Returns the execution.
Uuid insert_lapsed(pg::Connection& connection, const CoreRow& core = {}, AttemptRow attempt = {});

/// Many active executions whose leases lapsed one after another, dealt out over the partitions in turn.
struct ManyLapsed {
  int count;
  Partitions partitions = sixteen_partitions();
  Json policy{};
  Json raw_fields = Json::object();
  std::string worker_id = "w1";
  std::int64_t first_lapsed_ago_ms = 60'000;  ///< each of the others 1 ms after the one before
};
void insert_many_lapsed(pg::Connection& connection, const ManyLapsed& rows);

/// All rows of an outbox in the order of their ids, without those and without committed_at_ms.
Json lease_events(pg::Connection& connection);
Json completion_events(pg::Connection& connection);

/// `row` with some columns replaced.
Json changed(Json row, const Json& columns);

/// Every outcome counted by a tick as "name=count", by name.
std::string outcomes(const reconcile::TickReport& report);

/// A query's single number.
std::int64_t number(pg::Connection& connection, const std::string& query, const pg::Params& params = {});

}  // namespace ff::test
