// Any number that a column can hold may stand in a row, by a bug or by hand. It is the row's fault alone: no scan of a
// reconciler, no check of `audit`, no answer of `explain` and no count of leases fails for it. An act may: its row is set
// aside.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "explain/finding.hpp"
#include "explain/read.hpp"
#include "live_audit_stage.hpp"
#include "reconcile/lease_census.hpp"

using namespace ff;
using namespace ff::test;

namespace {

const Partitions kOne{AuditStage::kPartition};

struct Column {
  std::string table;
  std::string name;
  std::string type;
};

/// A row of everything, and who asks about many.
class Crowd : public AuditStage {
 public:
  Crowd() {
    add_the_rest();
    reconcile::Family all{.enabled = {}, .delays_reclaims = true};
    for (const reconcile::Reconciler& r : reconcile::registry())
      all.enabled.emplace(r.name, settings_of(r.name, {}));
    std::vector<explain::Member> family;
    for (const reconcile::Reconciler& r : reconcile::registry()) {
      family.push_back({&r, true, {kOne, {}, 1000, settings_of(r.name, {}), all}});
      pools_.emplace_back(database.connector(), 1, Milliseconds{10'000});
      engines_.emplace_back(r, family.back().scope, pools_.back());
    }
    reader_.emplace(family, kOne);
  }

  /// Those that count or date something, of every table that has a row. But for the one that says how many partitions there
  /// are: nothing runs before it makes sense.
  std::vector<Column> columns() {
    std::vector<Column> all;
    const auto found = db.execute(
        "SELECT r.relname::text AS table, a.attname::text AS column, format_type(a.atttypid, NULL) AS type"
        "  FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid"
        " WHERE r.relnamespace = 'public'::regnamespace AND r.relkind IN ('r', 'p') AND NOT r.relispartition"
        "   AND r.relname ^@ 'ff_' AND NOT r.relname ^@ 'ff_reconciler_' AND r.relname <> "
        "'ff_partition_config'"
        "   AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid IN ('bigint'::regtype, 'integer'::regtype)"
        "   AND a.attname NOT IN ('partition_key', 'event_id') ORDER BY 1, 2");
    for (const pg::Row row : found) {
      Column column{row.get<std::string>("table"), row.get<std::string>("column"),
                    row.get<std::string>("type")};
      if (number(db, "SELECT count(*) FROM " + column.table) > 0) all.push_back(std::move(column));
    }
    return all;
  }

  /// What fails while the least or the greatest number stands in these columns, each of another table, in turn: in all
  /// rows, or in one where no two may be alike.
  std::string failures_with(const std::vector<Column>& columns, bool greatest) {
    bool next = greatest;
    for (const Column& column : columns) set(column, std::exchange(next, !next));
    std::string failed = of_reconcilers() + of_audit() + of_explain();
    failed += of("storm control", [&] { reconcile::count_leases(db, reconcile::Groups(kOne), {}); });
    for (const Column& column : columns)
      db.execute_script("DELETE FROM " + column.table + "; INSERT INTO " + column.table +
                        " OVERRIDING SYSTEM VALUE SELECT * FROM kept_" + column.table);
    return failed;
  }

 private:
  void set(const Column& column, bool greatest) {
    const char* value = column.type == "bigint" ? (greatest ? "9223372036854775807" : "-9223372036854775808")
                                                : (greatest ? "2147483647" : "-2147483648");
    const std::string kept = "kept_" + column.table;
    db.execute_script("DROP TABLE IF EXISTS " + kept + "; CREATE TABLE " + kept + " AS SELECT * FROM " +
                      column.table);
    const std::string all = fmt::format("UPDATE {} SET {} = {}", column.table, column.name, value);
    try {
      db.execute_script(all);
    } catch (const pg::Error& error) {
      db.execute_script(all + " WHERE ctid = (SELECT max(ctid) FROM " + column.table + ")");
    }
  }

  static std::string of(std::string_view who, const std::function<void()>& ask) {
    try {
      ask();
      return "";
    } catch (const pg::Error& error) {
      return fmt::format("{}: {}\n", who, error.what());
    }
  }

  std::string of_reconcilers() {
    std::string failed;
    for (reconcile::Engine& engine : engines_) {
      const auto report = engine.tick({.dry_run = true});
      if (report.failure) failed += fmt::format("{}: {}\n", engine.reconciler().name, report.failure->what());
    }
    return failed;
  }

  std::string of_audit() {
    std::string failed;
    audit::Audit its(db, {kOne, kOne, kOne, kOne});
    its.check();
    for (const auto& omission : its.confirm().omissions) failed += "audit: " + omission.error + '\n';
    return failed;
  }

  std::string of_explain() {
    std::string failed;
    for (const char* name : {"active", "suspended", "cancelled", "blocked", "parent"})
      failed += of("explain", [&] { explain::findings(reader_->read(db, {kPartition, ids.at(name)})); });
    return failed;
  }

  void add_the_rest() {
    const std::string active = to_string(ids.at("active"));
    insert(db, "ff_flow_core",
           {{"partition_key", 3},
            {"flow_id", to_string(flow)},
            {"public_flow_state", "running"},
            {"created_at_ms", now}});
    const auto more = [&](std::string_view sql) { db.execute(sql, pg::Params::of(now, active)); };
    more(
        "INSERT INTO ff_signal_event (execution_id, signal_id, delivered_at_ms, partition_key) VALUES ($2, "
        "'s', $1, 3)");
    more(
        "INSERT INTO ff_operator_event (execution_id, event_type, occurred_at_ms, partition_key)"
        " VALUES ($2, 'replayed', $1, 3)");
    more(
        "INSERT INTO ff_worker_registry_event (partition_key, namespace, worker_instance_id, event_at_ms, "
        "event_kind)"
        " VALUES (3, 'ns', $2, $1, 'heartbeat')");
    more(
        "INSERT INTO ff_cancel_backlog (partition_key, flow_id, requested_at_ms, cancellation_policy)"
        " SELECT 3, flow_id, $1 + length($2), 'cancel_all' FROM ff_flow_core");
    more(
        "INSERT INTO ff_budget_usage_dedup (partition_key, dedup_key, outcome_json, applied_at_ms, "
        "expires_at_ms)"
        " VALUES (3, $2, '{}', $1, $1)");
    more(
        "INSERT INTO ff_suspend_dedup (partition_key, idempotency_key, outcome_json, created_at_ms)"
        " VALUES (3, $2, '{}', $1)");
    more(
        "INSERT INTO ff_quota_window (partition_key, quota_policy_id, admitted_at_ms, execution_id)"
        " VALUES (3, 'q1', $1, '{fp:3}:' || $2)");
  }

  std::optional<explain::Reader> reader_;
  std::deque<pg::Pool> pools_;
  std::deque<reconcile::Engine> engines_;
};

constexpr std::string_view kOthersHangOn[] = {"ff_exec_core", "ff_attempt", "ff_edge_group", "ff_flow_core",
                                              "ff_suspension_current"};

/// Of columns in the order of their tables: the first of each table, and so on. Those on which rows of other tables hang
/// go by themselves.
std::vector<std::vector<Column>> rounds(std::vector<Column> left) {
  std::vector<std::vector<Column>> all;
  while (!left.empty()) {
    std::vector<Column> together;
    std::vector<Column> later;
    for (Column& column : left) {
      if (std::ranges::find(kOthersHangOn, column.table) != std::end(kOthersHangOn))
        all.push_back({std::move(column)});
      else if (together.empty() || together.back().table != column.table)
        together.push_back(std::move(column));
      else
        later.push_back(std::move(column));
    }
    if (!together.empty()) all.push_back(std::move(together));
    left = std::move(later);
  }
  return all;
}

}  // namespace

TEST_CASE("no number that a column can hold stops a scan, a check or an answer") {
  Crowd crowd;
  const auto columns = crowd.columns();
  CHECK(columns.size() > 60);
  for (const std::vector<Column>& together : rounds(columns))
    for (const bool greatest : {false, true}) {
      const std::string failed = crowd.failures_with(together, greatest);
      CHECK(failed == "");
      if (failed.empty()) continue;
      for (const Column& column : together) {
        CAPTURE(column.table, column.name, greatest);
        CHECK(crowd.failures_with({column}, greatest) == "");
      }
    }
}
