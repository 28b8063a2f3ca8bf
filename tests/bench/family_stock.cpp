#include "bench/family_stock.hpp"

#include <stdexcept>

#include "bench/family_stock_inserts.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

const std::vector<Stock>& stocks() {
  static const std::vector<Stock> all{
      {"attempt_timeout",
       "lapsed leases, every other one of an execution with a retry left,",
       80,
       {"ff_exec_core", "ff_attempt", "ff_completion_event", "ff_lease_event"}},
      {"delayed_promoter", "delayed executions that may go on", 80, {"ff_exec_core", "ff_attempt"}},
      {"lease_expiry",
       "lapsed leases, one in eight of an execution that has ended,",
       80,
       {"ff_exec_core", "ff_attempt", "ff_lease_event"}},
      {"grant_expiry",
       "grants that nobody took up, every other one of an execution that is at work,",
       80,
       {"ff_exec_core", "ff_claim_grant"}},
      {"index_repair",
       "suspended executions that are one ahead of their attempt",
       80,
       {"ff_exec_core", "ff_attempt"}},
      {"execution_deadline",
       "running executions past their deadline",
       80,
       {"ff_exec_core", "ff_attempt", "ff_completion_event", "ff_lease_event"}},
      {"suspension_timeout",
       "suspensions of all behaviours, one in six of an execution that was resumed before,",
       60,
       {"ff_exec_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending", "ff_completion_event",
        "ff_lease_event"}},
      {"pending_waitpoint_expiry",
       "waitpoints that no suspension uses",
       80,
       {"ff_exec_core", "ff_waitpoint_pending"}},
      {"stray_waitpoint",
       "waitpoints of executions that were resumed before",
       80,
       {"ff_exec_core", "ff_waitpoint_pending"}},
      {"completion_repair",
       "cancelled executions that nobody was told of, each with one who waits,",
       40,
       {"ff_exec_core", "ff_attempt", "ff_edge", "ff_completion_event", "ff_lease_event"}},
      {"dependency",
       "events, four of them to a group and three groups in eight decided by them,",
       48,
       {"ff_exec_core", "ff_edge", "ff_edge_group", "ff_pending_cancel_groups", "ff_completion_event"}},
      {"group_recount",
       "fan-ins that count one edge as running whose upstream had ended before,",
       80,
       {"ff_exec_core", "ff_edge", "ff_edge_group", "ff_completion_event"}},
      {"edge_cancel_dispatcher",
       "groups with four siblings to cancel each",
       20,
       {"ff_exec_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending", "ff_edge_group",
        "ff_pending_cancel_groups", "ff_completion_event", "ff_lease_event"}},
      {"edge_cancel_reconciler",
       "groups with nothing left to cancel, half of them with four siblings listed,",
       20,
       {"ff_exec_core", "ff_edge_group", "ff_pending_cancel_groups"}},
      {"cancel_backlog",
       "members of cancelled flows, four to a flow, half of them leased,",
       40,
       {"ff_exec_core", "ff_attempt", "ff_cancel_backlog", "ff_cancel_backlog_member", "ff_completion_event",
        "ff_lease_event"}},
      {"budget_reset",
       "budgets of two dimensions, both spent by one execution,",
       80,
       {"ff_budget_policy", "ff_budget_usage", "ff_budget_usage_by_exec"}},
      {"quota_concurrency",
       "quotas whose count is above their admissions",
       80,
       {"ff_quota_policy", "ff_quota_admitted"}},
      {"quota_window",
       "rows of idle quotas, eight of each,",
       80,
       {"ff_quota_policy", "ff_quota_admitted", "ff_quota_window"}},
      {"worker_registry_ttl", "silent workers", 80, {"ff_worker_registry", "ff_worker_registry_event"}},
      {"outbox_retention",
       "events, a quarter of them in each outbox,",
       80,
       {"ff_lease_event", "ff_completion_event", "ff_signal_event", "ff_operator_event"}}};
  return all;
}

SteadyTime soon_enough() {
  return Clock::system().now() + 10min;
}

std::string joined(const std::vector<std::string_view>& tables) {
  std::string list;
  for (const std::string_view table : tables) list += (list.empty() ? "" : ", ") + std::string(table);
  return list;
}

}  // namespace

const Stock& stock_of(std::string_view reconciler) {
  for (const Stock& stock : stocks())
    if (stock.name == reconciler) return stock;
  throw std::out_of_range("there is no stock for " + std::string(reconciler));
}

Settings settings_for_stock(const reconcile::Reconciler& reconciler) {
  Settings settings = reconcile::default_settings(reconciler);
  if (const auto found = settings.find("stale_threshold"); found != settings.end())
    found->second = kStale.count();
  if (const auto found = settings.find("max_age"); found != settings.end())
    found->second = Milliseconds{24h * 36500}.count();
  return settings;
}

void stock_up(pg::Connection& connection, const Stock& stock, int rows, int partitions) {
  connection.execute(stock_insert(stock.name), pg::Params::of(rows, partitions), soon_enough());
  connection.execute_script("VACUUM " + joined(stock.tables), soon_enough());
}

void analyze_stock(pg::Connection& connection, const Stock& stock) {
  connection.execute_script("ANALYZE " + joined(stock.tables), soon_enough());
}

void clear_stock(pg::Connection& connection, const Stock& stock) {
  for (const std::string_view table : stock.tables)
    connection.execute_script("DELETE FROM " + std::string(table), soon_enough());
  connection.execute_script("VACUUM (TRUNCATE false) " + joined(stock.tables), soon_enough());
}

}  // namespace ff::bench
