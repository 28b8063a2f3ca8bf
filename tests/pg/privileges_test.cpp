// A role that has what README ("What it writes") says a daemon needs, and nothing else.
#include <catch2/catch.hpp>

#include "explain/read.hpp"
#include "lease/outbox_reader.hpp"
#include "migrate/migrate.hpp"
#include "support/due_rows.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr std::string_view kRole = R"(
  CREATE ROLE ff_reconciler;
  GRANT SELECT, INSERT, UPDATE, DELETE ON
    ff_exec_core, ff_attempt, ff_lease_event, ff_completion_event, ff_suspension_current, ff_waitpoint_pending,
    ff_edge_group, ff_pending_cancel_groups, ff_budget_policy, ff_budget_usage,
    ff_worker_registry, ff_worker_registry_event TO ff_reconciler;
  GRANT SELECT, UPDATE, DELETE ON ff_budget_usage_by_exec TO ff_reconciler;
  GRANT SELECT ON ff_edge, ff_claim_grant, ff_operator_event, ff_partition_config, ff_reconciler_migration
    TO ff_reconciler;
  GRANT USAGE ON SEQUENCE ff_lease_event_event_id_seq, ff_completion_event_event_id_seq TO ff_reconciler)";

/// A migrated database in which the role has its privileges; it goes with the database.
struct Stage {
  Stage() { admin.execute_script(std::string(kRole)); }
  ~Stage() { admin.execute_script("DROP OWNED BY ff_reconciler; DROP ROLE ff_reconciler"); }

  pg::Connector as_role() const {
    pg::ConnectOptions options = database.connector().options();
    options.conninfo += " options='-c role=ff_reconciler'";
    return pg::Connector(options);
  }
  pg::Connection connect() const { return as_role().connect(Clock::system().now() + Milliseconds{10'000}); }

  const Database database{};
  pg::Connection admin = database.connect();
};

/// The key of no row.
reconcile::RowKey any_key(const reconcile::Reconciler& reconciler) {
  reconcile::RowKey key{{0}, {}};
  for (const reconcile::KeyColumn& column : reconciler.key)
    key.columns.push_back(column.type == "uuid"   ? to_string(new_uuid())
                          : column.type == "text" ? "none"
                                                  : "0");
  return key;
}

}  // namespace

TEST_CASE("the role may do what a daemon does, and nothing to what it only reads") {
  Stage stage;
  auto connection = stage.connect();
  CHECK(migrate::inspect(connection).problems == std::vector<std::string>{});
  CHECK(migrate::flow_partitions(connection) == 256);
  const lease::Means means = lease::means(connection);
  CHECK(means.locks);
  CHECK(means.sequence);
  CHECK_NOTHROW(lease::look(connection, means, 0));
  CHECK_NOTHROW(lease::read_writers(connection));
  for (const char* refused :
       {"DELETE FROM ff_edge", "DELETE FROM ff_claim_grant", "DELETE FROM ff_operator_event",
        "SELECT FROM ff_waitpoint_hmac", "UPDATE ff_partition_config SET num_flow_partitions = 1",
        "CREATE TABLE another ()"}) {
    CAPTURE(refused);
    CHECK_THROWS_WITH(connection.execute(refused), Catch::Contains("permission denied"));
  }
}

// The server checks a statement's privileges as a whole, whether it comes to the part that needs them or not.
TEST_CASE("every act of every reconciler runs with the role's privileges") {
  Stage stage;
  auto connection = stage.connect();
  for (const reconcile::Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    CHECK(act_on(connection, reconciler, {any_key(reconciler)}).empty());
  }
}

TEST_CASE("explain reads with the role's privileges") {
  Stage stage;
  auto connection = stage.connect();
  const Uuid flow = new_uuid();
  const Uuid id = insert_core(stage.admin, {.partition = {3}, .flow = flow});
  std::vector<explain::Member> family;
  for (const reconcile::Reconciler& r : reconcile::registry())
    family.push_back({&r, true, {{PartitionKey{3}}, {}, 1000, reconcile::default_settings(r), {}}});
  CHECK(explain::read(connection, {{3}, id}, family, {{3}}).core);
}

TEST_CASE("every reconciler moves its rows with the role's privileges") {
  Stage stage;
  insert_due_rows(stage.admin, {.partitions = 3, .per_partition = 16, .one_due_in = 2, .crowded = 1});
  const pg::Connector connector = stage.as_role();
  pg::Pool pool(connector, 1, Milliseconds{10'000});
  for (const reconcile::Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    reconcile::Scope scope{partition_range({0}, {2}), {}, 1000, reconcile::default_settings(reconciler), {}};
    reconcile::Engine engine(reconciler, scope, pool);
    CHECK_NOTHROW(engine.backlog(10));
    const auto report =
        engine.tick({.dry_run = true, .list_moves = true});  // or there is nothing for the next
    CHECK_FALSE(report.failure);
    CHECK(report.errors.empty());
    CHECK_FALSE(report.moves.empty());
  }
}
