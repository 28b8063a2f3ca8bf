#include "beside/lines.hpp"

#include <array>
#include <stdexcept>

#include "pg/transaction.hpp"

namespace ff::test {
namespace {

constexpr std::array kTheirScanners{
    "attempt_timeout",     "lease_expiry",           "suspension_timeout",
    "budget_reset",        "worker_registry",        "dependency",
    "dispatch_completion", "edge_cancel_dispatcher", "edge_cancel_reconciler"};

Json request(std::string_view name, const std::string& filter) {
  Json arguments{{"name", name}, {"partitions", Json::array()}};
  for (int key = 0; key < 16; ++key) arguments["partitions"].push_back(key);
  if (!filter.empty()) arguments["namespace"] = filter;
  return arguments;
}

std::string told(std::int64_t processed, std::int64_t errors) {
  return std::to_string(processed) + " done, " + (errors > 0 ? "an error" : "no error");
}

}  // namespace

reconcile::TickReport Side::tick(std::string_view name, const std::string& filter) {
  EngineOptions options;
  if (name == "dependency") options.settings = {{"stale_threshold", 0}};
  if (name == "grant_expiry") options.settings = {{"grace", 0}};
  // The server that asked for the cancel is gone.
  if (name == "cancel_backlog") options.settings = {{"grace", 0}};
  // So that `max_reclaims` counts, as in a daemon.
  if (name == "lease_expiry") options.together_with = {{"attempt_timeout", {}}};
  if (!filter.empty()) options.filter = for_namespace(filter);
  EngineFixture engine(world.connector(), name, options);
  return engine->tick();
}

void Side::scan(std::string_view name, const std::string& filter) {
  world.pass();
  if (!ours) {
    world.real.call("scan", request(name, filter));
    return;
  }
  const reconcile::TickReport report = tick(name, filter);
  if (report.failure || report.error_count() > 0) throw std::runtime_error(std::string(name) + " fails");
}

std::string Side::look_behind(const std::string& lock, std::string_view name, const std::string& filter) {
  world.pass();
  const pg::Transaction held(world.connection);
  world.connection.execute(lock);
  if (!ours) {
    FlowFabric impatient(world.url() + "&options[lock_timeout]=200");
    const Json report = impatient.call("scan", request(name, filter));
    return told(report.at("processed"), report.value("errors", 0));
  }
  const reconcile::TickReport report = tick(name, filter);
  return told(report.processed, report.error_count() + (report.failure ? 1 : 0));
}

void Side::look_all() {
  if (ours) {
    for (const reconcile::Reconciler& reconciler : reconcile::registry())
      if (reconciler.on_by_default) scan(reconciler.name);
  } else {
    for (const char* name : kTheirScanners) scan(name);
  }
}

}  // namespace ff::test
