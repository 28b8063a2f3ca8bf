#include "histories/rescuer.hpp"

#include <csignal>
#include <future>

#include "histories/closed_table.hpp"
#include "reconcile/engine.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::test {
namespace {

constexpr Milliseconds kAcquireTime{10'000};
/// So few that attempt_timeout has its share.
constexpr std::int64_t kMaxReclaims = 1;
/// Completion events are left to FlowFabric's own dispatcher for so long; less than a unit of a history's time.
constexpr std::int64_t kStaleThresholdMs = 150'000;
/// Longer than any history lasts.
constexpr std::int64_t kMaxAgeMs = 86'400'000LL * 365;
constexpr const char* kEngine = "ff-history-tick";
constexpr const char* kProcess = "ff-reconcilerd";

Settings settings_of(const reconcile::Reconciler& reconciler, std::int64_t grace_ms) {
  Settings settings = reconcile::default_settings(reconciler);
  if (settings.contains("grace")) settings["grace"] = grace_ms;
  if (settings.contains("max_reclaims")) settings["max_reclaims"] = kMaxReclaims;
  if (settings.contains("max_age")) settings["max_age"] = kMaxAgeMs;
  if (settings.contains("stale_threshold")) settings["stale_threshold"] = kStaleThresholdMs;
  return settings;
}

std::string config_of(std::int64_t grace_ms) {
  const std::string grace = "grace: " + std::to_string(grace_ms) + "ms";
  return "partitions: 0-3\nreconcilers:\n  lease_expiry: {" + grace +
         ", max_reclaims: " + std::to_string(kMaxReclaims) + "}\n  attempt_timeout: {" + grace +
         "}\n  grant_expiry: {" + grace +
         "}\n  dependency: {stale_threshold: " + std::to_string(kStaleThresholdMs) +
         "ms}\n  completion_repair: {max_age: " + std::to_string(kMaxAgeMs) + "ms}\n";
}

reconcile::Scope scope_of(const reconcile::Reconciler& reconciler, std::int64_t grace_ms) {
  reconcile::Scope scope{partition_range({0}, {std::int16_t{3}}),
                         {},
                         1000,
                         settings_of(reconciler, grace_ms),
                         {},
                         // An engine that remembers nothing sees everything for the first time.
                         Milliseconds{0}};
  for (const reconcile::Reconciler& other : reconcile::registry())
    if (other.on_by_default) scope.family.enabled.emplace(other.name, settings_of(other, grace_ms));
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

}  // namespace

Moment Moment::of(const Step& step) {
  return {step.at("table"), step.value("nth", 1), step.value("batch", 1)};
}

Daemon::Daemon(const FlowFabricDatabase& database, std::int64_t grace_ms)
    : database_(database),
      grace_ms_(grace_ms),
      connector_(options_for(database)),
      pool_(connector_, 1, kAcquireTime),
      config_(directory_.write("config.yaml", config_of(grace_ms))) {}

reconcile::TickReport Daemon::run(std::string_view reconciler) {
  reconcile::Engine engine(known(reconciler), scope_of(known(reconciler), grace_ms_), pool_);
  return engine.tick({.shortcuts_scan = true});
}

Outcomes Daemon::tick(std::string_view reconciler) {
  const reconcile::TickReport report = run(reconciler);
  if (report.failure) throw std::runtime_error(std::string(reconciler) + ": " + report.failure->what());
  if (report.error_count() > 0) throw std::runtime_error(std::string(reconciler) + " counted errors");
  return report.outcomes;
}

bool Daemon::cut(std::string_view reconciler, const std::string& table) {
  ClosedTable closed(database_, table);
  auto turn = std::async(std::launch::async, [&] { run(reconciler); });
  bool stopped = false;
  // It tries again with a new session, which is ended, too.
  const auto ended = [&] { return turn.wait_for(Milliseconds{0}) == std::future_status::ready; };
  while (closed.waits(kEngine, ended)) {
    stopped = true;
    closed.end_sessions_of(kEngine);
  }
  closed.open();
  turn.get();
  pool_.discard_all();
  closed.until_gone(kEngine);
  return stopped;
}

bool Daemon::kill(std::string_view reconciler, const Moment& moment) {
  ClosedTable closed(database_, moment.table);
  Process process({FF_BINARY, "tick", std::string(reconciler), "--config", config_, "--batch-size",
                   std::to_string(moment.batch), "--gap", "0s"},
                  {{"FF_DATABASE_URL", database_.conninfo()}});
  const auto waits = [&] { return closed.waits(kProcess, [&] { return !process.running(); }); };
  bool stopped = waits();
  for (int transaction = 1; stopped && transaction < moment.nth; ++transaction) {
    closed.let_one_through();
    stopped = waits();
  }
  if (stopped) process.signal(SIGKILL);
  const std::optional<int> code = process.wait();
  closed.open();
  closed.until_gone(kProcess);
  if (code != (stopped ? 128 + SIGKILL : 0))
    throw std::runtime_error(std::string(reconciler) + " as a process " +
                             (code ? "ended with " + std::to_string(*code) : "does not end") + ": " +
                             process.out() + process.err());
  return stopped;
}

Outcomes Scanners::tick(std::string_view reconciler) {
  const std::string name = reconciler == "worker_registry_ttl" ? "worker_registry" : std::string(reconciler);
  for (const char* known :
       {"attempt_timeout", "lease_expiry", "suspension_timeout", "budget_reset", "dependency",
        "edge_cancel_dispatcher", "edge_cancel_reconciler", "worker_registry"})
    if (name == known)
      flowfabric_.call("scan",
                       {{"name", name}, {"partitions", {0, 1, 2, 3}}, {"stale_ms", kStaleThresholdMs}});
  return {};
}

const std::vector<std::string>& rescuing_reconcilers() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const reconcile::Reconciler& reconciler : reconcile::registry())
      if (reconciler.on_by_default) found.emplace_back(reconciler.name);
    return found;
  }();
  return names;
}

}  // namespace ff::test
