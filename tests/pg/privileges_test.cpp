// A role that has what `migrate grants` prints, and nothing else.
#include <catch2/catch.hpp>

#include <functional>
#include <map>
#include <sstream>

#include "audit/audit.hpp"
#include "explain/read.hpp"
#include "grants.hpp"
#include "lease/outbox_reader.hpp"
#include "migrate/migrate.hpp"
#include "support/due_rows.hpp"
#include "support/engine.hpp"
#include "support/plan.hpp"
#include "support/stages.hpp"

using namespace ff;
using namespace ff::test;
using daemon::Grant;

namespace {

/// A migrated database in which nothing is everybody's, and a role; it goes with the database.
struct RoleStage {
  RoleStage() {
    admin.execute_script("CREATE ROLE ff_reconciler LOGIN; REVOKE ALL ON SCHEMA public FROM PUBLIC");
    admin.execute_script("REVOKE ALL ON DATABASE " + database.name() + " FROM PUBLIC");
  }
  ~RoleStage() {
    take_all();
    admin.execute("DROP ROLE ff_reconciler");
  }

  std::vector<Grant> grant(const daemon::Needs& needs) {
    std::vector<Grant> all = daemon::grants(admin, needs);
    give(all);
    return all;
  }
  void give(const std::vector<Grant>& grants) {
    admin.execute_script(daemon::statements(admin, grants, "ff_reconciler"));
  }
  void take(const Grant& grant) {
    admin.execute_script("REVOKE " + grant.privileges + " ON " + grant.object + " FROM ff_reconciler");
  }
  void take_all() { admin.execute_script("DROP OWNED BY ff_reconciler"); }

  pg::Connector as_role() const {
    pg::ConnectOptions options = database.connector().options();
    options.conninfo += " user=ff_reconciler";
    return pg::Connector(options);
  }
  pg::Connection connect() const { return as_role().connect(Clock::system().now() + Milliseconds{10'000}); }

  const Database database{};
  pg::Connection admin = database.connect();
};

std::vector<const reconcile::Reconciler*> switched_on() {
  std::vector<const reconcile::Reconciler*> all;
  for (const reconcile::Reconciler& reconciler : reconcile::registry())
    if (reconciler.on_by_default) all.push_back(&reconciler);
  return all;
}

/// One for each privilege.
std::vector<Grant> one_by_one(const std::vector<Grant>& grants) {
  std::vector<Grant> all;
  for (const Grant& grant : grants) {
    std::istringstream list(grant.privileges);
    for (std::string privilege; std::getline(list >> std::ws, privilege, ',');)
      all.push_back({privilege, grant.object});
  }
  return all;
}

bool is_of_rows(const Grant& grant) {
  return grant.object.starts_with("TABLE ") || grant.object.starts_with("SEQUENCE ");
}

/// Does it, and says whether a privilege is missing.
bool refused(const std::function<void()>& act) {
  try {
    act();
    return false;
  } catch (const pg::Error& error) {
    CAPTURE(error.what());
    CHECK(error.sqlstate() == "42501");
    return true;
  }
}

/// With storm control, so that no companion has nothing to do.
reconcile::Scope first_partition(const reconcile::Reconciler& reconciler) {
  return {{{0}}, {}, 1000, reconcile::default_settings(reconciler), {.enabled = {}, .delays_reclaims = true}};
}

/// Whether the daemon finds that it can work here.
bool starts(const RoleStage& stage) {
  try {
    auto connection = stage.connect();
    return migrate::inspect(connection).usable() && migrate::flow_partitions(connection) == 256;
  } catch (const pg::Error&) {
    return false;
  }
}

/// Whether `status`, `explain`, `audit` and `lease-events` get all that they ask for.
bool reads_all(RoleStage& stage) {
  const Uuid execution = insert_core(stage.admin, {.flow = new_uuid()});
  try {
    const pg::Connector connector = stage.as_role();
    pg::Pool pool(connector, 1, Milliseconds{10'000});
    for (const reconcile::Reconciler& reconciler : reconcile::registry())
      reconcile::Engine(reconciler, first_partition(reconciler), pool).backlog(10);
    auto connection = pool.acquire();
    std::vector<explain::Member> family;
    for (const reconcile::Reconciler& reconciler : reconcile::registry())
      family.push_back({&reconciler, true, first_partition(reconciler)});
    explain::Reader(family, {{0}}).read(*connection, {{0}, execution});
    const lease::Means means = lease::means(*connection);
    lease::read_head(*connection, means, 0);
    lease::read_writers(*connection);
    audit::Audit audit(*connection, {{{0}}, {{0}}, {{0}}, {{0}}});
    audit.check();
    return means.locks && means.sequence && audit.confirm().omissions.empty();
  } catch (const pg::Error& error) {
    CAPTURE(error.what());
    CHECK(error.sqlstate() == "42501");
    return false;
  }
}

using Keys = std::vector<reconcile::RowKey>;

/// What one tick with the role's privileges would move, by the pair that does.
std::map<const reconcile::Reconciler*, Keys> would_move(const RoleStage& stage,
                                                        const reconcile::Reconciler& reconciler) {
  const pg::Connector connector = stage.as_role();
  pg::Pool pool(connector, 1, Milliseconds{10'000});
  reconcile::Scope scope = first_partition(reconciler);
  scope.still_for = Milliseconds{0};
  reconcile::Engine engine(reconciler, scope, pool);
  const auto report = engine.tick({.shortcuts_scan = true, .dry_run = true, .list_moves = true});
  CHECK_FALSE(report.failure);
  CHECK(report.errors.empty());
  std::map<const reconcile::Reconciler*, Keys> moved;
  for (const reconcile::Move& move : report.moves) moved[move.pair].push_back(move.key);
  return moved;
}

/// Rows for each of its pairs, where there are none of its kind among the common ones.
void seed_all(pg::Connection& admin, const reconcile::Reconciler& reconciler) {
  const SeedOptions options{.count = 2, .partitions = "{0}"};
  seed(admin, reconciler, options);
  for (const reconcile::Reconciler& companion : reconciler.companions) seed(admin, companion, options);
}

/// Without keeping what it moves: the next grant wants the same rows.
void try_act(pg::Connection& connection, const reconcile::Reconciler& pair, const Keys& keys) {
  std::vector<reconcile::Candidate> rows;
  for (const reconcile::RowKey& key : keys) rows.push_back({key, {}, true});
  pg::Params params = leading_params(pair, reconcile::partitions_of(rows));
  reconcile::add_keys(params, pair, rows);
  pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
  const reconcile::Statements statements(pair);
  if (!statements.wait.empty()) transaction.execute(statements.wait.over({{0}}), params);
  if (!statements.lock.empty()) transaction.execute(statements.lock.over({{0}}), params);
  transaction.execute(statements.act.over({{0}}), params);
  transaction.rollback();
}

}  // namespace

TEST_CASE("a role with all the grants may do what a daemon does, and nothing beside it") {
  RoleStage stage;
  daemon::Needs needs = daemon::needs_of(switched_on());
  for (const reconcile::Privileges& more : daemon::needs_of_reading()) needs.push_back(more);
  stage.grant(needs);
  auto connection = stage.connect();
  CHECK(migrate::inspect(connection).problems == std::vector<std::string>{});
  CHECK(migrate::flow_partitions(connection) == 256);
  CHECK(reads_all(stage));
  for (const char* statement :
       {"DELETE FROM ff_edge", "DELETE FROM ff_operator_event", "DELETE FROM ff_lease_event",
        "DELETE FROM ff_exec_core", "INSERT INTO ff_exec_core DEFAULT VALUES",
        "SELECT FROM ff_waitpoint_hmac", "UPDATE ff_partition_config SET num_flow_partitions = 1",
        "CREATE TABLE another ()"}) {
    CAPTURE(statement);
    CHECK(refused([&] { connection.execute(statement); }));
  }
}

TEST_CASE("the daemon starts with its own grants, and without any of them does not") {
  RoleStage stage;
  const std::vector<Grant> all = stage.grant(daemon::needs_of({}));
  CHECK(starts(stage));
  for (const Grant& grant : one_by_one(all)) {
    CAPTURE(grant.privileges, grant.object);
    stage.take(grant);
    CHECK_FALSE(starts(stage));
    stage.give({grant});
  }
  CHECK(starts(stage));
}

TEST_CASE("what only reads works with its own grants, and without any of them does not") {
  RoleStage stage;
  const std::vector<Grant> all = stage.grant(daemon::needs_of_reading());
  stage.grant({{"ff_partition_config", "SELECT"}});
  CHECK(reads_all(stage));
  for (const Grant& grant : one_by_one(all)) {
    if (!is_of_rows(grant)) continue;
    CAPTURE(grant.privileges, grant.object);
    stage.take(grant);
    CHECK_FALSE(reads_all(stage));
    stage.give({grant});
  }
}

TEST_CASE("each reconciler moves its rows with its own grants, and without any of them does not") {
  RoleStage stage;
  insert_due_rows(stage.admin, {.partitions = 1, .per_partition = 32, .one_due_in = 2, .crowded = 0});
  // So that whoever ends an execution takes a lease as well, and tells of it.
  stage.admin.execute(
      "UPDATE ff_attempt SET lease_expires_at_ms = 4102444800000 WHERE lease_expires_at_ms IS NULL");
  // A young one would keep what is old behind it.
  stage.admin.execute("UPDATE ff_completion_event SET committed_at_ms = 0");
  for (const reconcile::Reconciler& reconciler : reconcile::registry()) {
    CAPTURE(reconciler.name);
    const std::vector<Grant> all = stage.grant(reconciler.privileges);
    auto due = would_move(stage, reconciler);
    if (due.size() <= reconciler.companions.size()) {
      seed_all(stage.admin, reconciler);
      due = would_move(stage, reconciler);
    }
    CHECK(due.size() == 1 + reconciler.companions.size());
    auto connection = stage.connect();
    const auto work = [&] {
      for (const auto& [pair, keys] : due) {
        if (!pair->partition_count.empty()) connection.execute(std::string(pair->partition_count));
        found_out(connection, *pair);
        connection.execute(reconcile::Statements(*pair).page.over({{0}}),
                           page_params(*pair, {{0}}, Milliseconds{0}, 1));
        try_act(connection, *pair, keys);
      }
    };
    for (const Grant& grant : one_by_one(all)) {
      if (!is_of_rows(grant)) continue;
      // The fan-ins that it counts anew here are satisfied: none of them ends with a lease.
      if (reconciler.name == "group_recount" && grant.object.starts_with("SEQUENCE")) continue;
      CAPTURE(grant.privileges, grant.object);
      stage.take(grant);
      CHECK(refused(work));
      stage.give({grant});
    }
    stage.take_all();
  }
}
