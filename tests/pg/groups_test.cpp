// The groups of partitions that statements name, and what sessions keep of them.
#include <catch2/catch.hpp>

#include <set>

#include "reconcile/groups.hpp"
#include "support/engine.hpp"
#include "support/undating.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Groups;
using reconcile::hash_child;

namespace {

/// Notes, at each update of an attempt, how many statements this session has prepared that act on attempts, and how
/// often they have been run with one plan.
void watch_plans(pg::Connection& db) {
  db.execute_script(R"sql(
    CREATE TABLE watched (statements bigint, runs bigint);
    CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO watched SELECT count(*), coalesce(max(generic_plans), 0) FROM pg_prepared_statements
       WHERE statement LIKE '%UPDATE%ff\_attempt%' AND custom_plans = 0;
      RETURN NULL;
    END $$;
    CREATE TRIGGER watch AFTER UPDATE ON ff_attempt FOR EACH STATEMENT EXECUTE FUNCTION watch())sql");
}

}  // namespace

TEST_CASE("the hash child of a partition is the one that the server says") {
  const Database database;
  auto db = database.connect();
  db.execute_script("CREATE TABLE hashed (partition_key smallint) PARTITION BY HASH (partition_key)");
  const auto keys = partition_range({0}, {32'767});
  const auto agreed = [&](const std::vector<std::int64_t>& children) {
    return db
        .execute(
            "SELECT count(*) FROM unnest($1::smallint[], $2::bigint[]) AS t(key, child)"
            " WHERE satisfies_hash_partition('hashed'::regclass, 256, t.child::int, t.key)",
            pg::Params::of(keys, children))
        .one()
        .get<std::int64_t>(0);
  };
  std::vector<std::int64_t> children;
  for (const PartitionKey key : keys) children.push_back(hash_child(key));
  CHECK(agreed(children) == 32'768);
  for (std::int64_t& child : children) child = (child + 1) % 256;
  CHECK(agreed(children) == 0);
}

TEST_CASE("every partition is in one group, and those of a hash child together") {
  const Partitions all = partition_range({0}, {255});
  const Groups groups(all);
  CHECK(groups.size() == 16);
  CHECK(groups.partitions() == 256);
  std::set<PartitionKey> seen;
  std::set<unsigned> finished;
  for (const Partitions& group : groups.all()) {
    CHECK(group.size() <= Groups::kMost);
    std::set<unsigned> children;
    for (const PartitionKey each : group) {
      CHECK(seen.insert(each).second);
      CHECK(groups.around(each) == group);
      children.insert(hash_child(each));
    }
    // At most one child goes over into the next group.
    CHECK(std::ranges::count_if(children, [&](unsigned child) { return finished.contains(child); }) <= 1);
    finished.insert(children.begin(), children.end());
  }
  CHECK(seen.size() == 256);
  CHECK(groups.of({256}) == groups.size());
  CHECK(groups.around({256}) == Partitions{{256}});
}

TEST_CASE("a session plans a statement once for a group, however many batches and ticks there are") {
  const Database database;
  auto db = database.connect();
  watch_plans(db);
  insert_many_lapsed(db, {.count = 100, .partitions = {{3}, {4}}});
  EngineFixture engine(database, "attempt_timeout", {.partitions = {{3}, {4}}, .batch_size = 10});
  CHECK(engine->tick().processed == 100);
  insert_many_lapsed(db, {.count = 100, .partitions = {{3}, {4}}});
  CHECK(engine->tick().processed == 100);
  CHECK(number(db, "SELECT max(runs) FROM watched") >= 18);
  CHECK(number(db, "SELECT max(statements) FROM watched") == 1);
}

// One whose act is about a single table: with more, fewer groups are moved together (Statement::groups_together).
TEST_CASE("rows of several groups are moved in one transaction") {
  const reconcile::Reconciler undater = undating(R"sql(
      SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms
        FROM {schema}.ff_exec_core c
       WHERE {in_partitions:c} AND c.deadline_at_ms IS NOT NULL AND {filter:c})sql");
  const Database database;
  auto db = database.connect();
  const auto partitions = partition_range({0}, {47});
  for (const PartitionKey partition : partitions)
    insert_core(db, {.partition = partition, .deadline_at_ms = 1'700'000'000'000});
  db.execute_script(
      "CREATE TABLE moved_by (tx xid8); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
      " INSERT INTO moved_by VALUES (pg_current_xact_id()); RETURN NULL; END $$; CREATE TRIGGER note AFTER "
      "UPDATE ON"
      " ff_exec_core FOR EACH ROW EXECUTE FUNCTION note()");
  EngineFixture engine(database, undater, {.partitions = partitions});
  CHECK(engine->tick().processed == 48);
  CHECK(number(db, "SELECT count(*) FROM moved_by") == 48);
  CHECK(number(db, "SELECT count(DISTINCT tx) FROM moved_by") == 1);
}
