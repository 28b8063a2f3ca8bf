#include "histories/rescuer.hpp"

#include <atomic>
#include <csignal>
#include <thread>

#include "reconcile/engine.hpp"
#include "reconcile/registry.hpp"
#include "support/process.hpp"

namespace ff::test {
namespace {

constexpr Milliseconds kAcquireTime{10'000};
/// Completion events are left to FlowFabric's own dispatcher for so long; less than a unit of a history's time.
constexpr std::int64_t kStaleThresholdMs = 150'000;

constexpr std::string_view kWaiting = R"sql(
SELECT pid FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = $1 AND wait_event_type = 'Lock')sql";
constexpr std::string_view kThere =
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1";
constexpr std::string_view kTerminate = "SELECT pg_terminate_backend($1)";
constexpr const char* kEngine = "ff-history-tick";
constexpr const char* kProcess = "ff-reconcilerd";

Settings settings_of(const reconcile::Reconciler& reconciler, std::int64_t grace_ms) {
  Settings settings = reconcile::default_settings(reconciler);
  if (settings.contains("grace")) settings["grace"] = grace_ms;
  if (settings.contains("stale_threshold")) settings["stale_threshold"] = kStaleThresholdMs;
  return settings;
}

reconcile::Scope scope_of(const reconcile::Reconciler& reconciler, std::int64_t grace_ms) {
  const bool everywhere = reconciler.name == "worker_registry_ttl";
  reconcile::Scope scope{partition_range({0}, {std::int16_t(everywhere ? 255 : 3)}),
                         {},
                         1000,
                         settings_of(reconciler, grace_ms),
                         {}};
  for (const reconcile::Reconciler& other : reconcile::registry())
    if (other.name != "outbox_retention")
      scope.family.enabled.emplace(other.name, settings_of(other, grace_ms));
  return scope;
}

pg::ConnectOptions options_for(const FlowFabricDatabase& database) {
  pg::ConnectOptions options = database.connector().options();
  options.application_name = kEngine;
  return options;
}

const reconcile::Reconciler& known(std::string_view name) {
  const reconcile::Reconciler* found = reconcile::find_reconciler(name);
  if (found == nullptr) throw std::invalid_argument("no reconciler " + std::string(name));
  return *found;
}

// Whoever wants to write to a table waits for this to go.
class ClosedTable {
 public:
  ClosedTable(const FlowFabricDatabase& database, const std::string& table)
      : connection_(database.connect()) {
    connection_.execute("BEGIN");
    connection_.execute("LOCK TABLE " + table + " IN SHARE MODE");
  }
  /// Waits until the program of this name waits for us, and ends its session; false: it ended without.
  template <class Ended>
  bool waits(const char* program, const Ended& ended) {
    bool waits = false;
    wait_until([&] {
      waits = !connection_.execute(kWaiting, pg::Params::of(program)).empty();
      return waits || ended();
    });
    return waits;
  }
  void end_sessions_of(const char* program) {
    for (const pg::Row row : connection_.execute(kThere, pg::Params::of(program)))
      connection_.execute(kTerminate, pg::Params::of(row.get<std::int32_t>(0)));
  }
  void open() { connection_.execute("ROLLBACK"); }
  void until_gone(const char* program) {
    wait_until([&] { return connection_.execute(kThere, pg::Params::of(program)).empty(); });
  }

 private:
  pg::Connection connection_;
};

}  // namespace

Daemon::Daemon(const FlowFabricDatabase& database, std::int64_t grace_ms)
    : database_(database),
      grace_ms_(grace_ms),
      connector_(options_for(database)),
      pool_(connector_, 1, kAcquireTime) {}

reconcile::TickReport Daemon::run(std::string_view reconciler) {
  reconcile::Engine engine(known(reconciler), scope_of(known(reconciler), grace_ms_), pool_);
  return engine.tick();
}

void Daemon::tick(std::string_view reconciler, const std::string& table) {
  if (!table.empty()) return stop_midway(reconciler, table);
  const reconcile::TickReport report = run(reconciler);
  if (report.failure) throw std::runtime_error(std::string(reconciler) + ": " + report.failure->what());
  if (report.error_count() > 0) throw std::runtime_error(std::string(reconciler) + " counted errors");
}

void Daemon::stop_midway(std::string_view reconciler, const std::string& table) {
  ClosedTable closed(database_, table);
  std::atomic<bool> ended = false;
  std::thread thread([&] {
    run(reconciler);
    ended = true;
  });
  // It tries again with a new session, which is ended, too.
  while (closed.waits(kEngine, [&] { return ended.load(); })) closed.end_sessions_of(kEngine);
  closed.open();
  thread.join();
  pool_.discard_all();
  closed.until_gone(kEngine);
}

void Daemon::kill(std::string_view reconciler, const std::string& table) {
  ClosedTable closed(database_, table);
  Process process({FF_BINARY, "tick", std::string(reconciler), "--partitions", "0-3"},
                  {{"FF_DATABASE_URL", database_.conninfo()}});
  if (closed.waits(kProcess, [&] { return !process.running(); })) process.signal(SIGKILL);
  process.wait();
  closed.open();
  closed.until_gone(kProcess);
}

void Scanners::tick(std::string_view reconciler, const std::string&) {
  const std::string name = reconciler == "worker_registry_ttl" ? "worker_registry" : std::string(reconciler);
  for (const char* known :
       {"attempt_timeout", "lease_expiry", "suspension_timeout", "budget_reset", "dependency",
        "edge_cancel_dispatcher", "edge_cancel_reconciler", "worker_registry"})
    if (name == known)
      flowfabric_.call("scan",
                       {{"name", name}, {"partitions", {0, 1, 2, 3}}, {"stale_ms", kStaleThresholdMs}});
}

const std::vector<std::string>& rescuing_reconcilers() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const reconcile::Reconciler& reconciler : reconcile::registry())
      if (reconciler.name != "outbox_retention") found.emplace_back(reconciler.name);
    return found;
  }();
  return names;
}

}  // namespace ff::test
