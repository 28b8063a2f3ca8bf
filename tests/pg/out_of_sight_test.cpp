// While a hash child is detached, what is in it is out of sight and not gone: nobody concludes anything from that.
#include <algorithm>
#include <catch2/catch.hpp>
#include <future>
#include <set>
#include <thread>
#include <tuple>

#include "pg/transaction.hpp"
#include "reconcile/statements.hpp"
#include "support/engine.hpp"
#include "support/stages.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Reconciler;

namespace {

constexpr const char* kPartition = "{3}";

/// The child of a table in which partition 3 is, and its bound.
struct Child {
  std::string name;
  std::string bound;
};

Child child_of(pg::Connection& db, const std::string& table) {
  const Json found =
      row(db,
          "SELECT c.oid::regclass::text AS name, pg_get_expr(c.relpartbound, c.oid) AS bound"
          "  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
          " WHERE i.inhparent = '" +
              table +
              "'::regclass"
              "   AND satisfies_hash_partition(i.inhparent,"
              "         substring(pg_get_expr(c.relpartbound, c.oid) FROM 'modulus (\\d+)')::integer,"
              "         substring(pg_get_expr(c.relpartbound, c.oid) FROM 'remainder (\\d+)')::integer, "
              "3::smallint)");
  return {found["name"], found["bound"]};
}

/// While it lives, the child is detached.
class Detached {
 public:
  Detached(pg::Connection& db, std::string table)
      : db_(db), table_(std::move(table)), child_(child_of(db, table_)) {
    db_.execute("ALTER TABLE " + table_ + " DETACH PARTITION " + child_.name);
  }
  ~Detached() {
    db_.execute("ALTER TABLE " + table_ + " ATTACH PARTITION " + child_.name + " " + child_.bound);
  }
  Detached(const Detached&) = delete;
  Detached& operator=(const Detached&) = delete;

 private:
  pg::Connection& db_;
  const std::string table_;
  const Child child_;
};

/// The tables with hash children that a pair reads or writes.
std::set<std::string> tables_of(pg::Connection& db, const Reconciler& pair) {
  std::set<std::string> found;
  for (const reconcile::Privileges& its : pair.privileges)
    if (number(db, "SELECT count(*) FROM pg_partitioned_table WHERE partrelid = to_regclass($1)",
               pg::Params::of(std::string(its.table))) > 0)
      found.emplace(its.table);
  return found;
}

/// Where nothing follows from what is missing but that the pair does not do what it would do with it, or the table is another
/// pair's of the same reconciler.
bool may_be_missing(const Reconciler& pair, const std::string& table) {
  const std::string act = reconcile::Statements(pair).act.over({{3}});
  if (act.find(table + " ") == act.npos) return true;
  static const std::set<std::tuple<std::string_view, int, std::string_view>> all{
      // Only a filter asks for the core.
      {"pending_waitpoint_expiry", 0, "ff_exec_core"},
      // Only of one that is called leased it is asked whether it has a lease, and without attempts it waits for no claim.
      {"grant_expiry", 1, "ff_attempt"},
      // Only of one that has ended it is asked whether its worker may finish.
      {"suspension_timeout", 0, "ff_cancel_backlog"},
      {"suspension_timeout", 0, "ff_cancel_backlog_member"},
      {"suspension_timeout", 0, "ff_flow_core"},
      // Only where an upstream was replayed, and without a group nothing is missed.
      {"completion_repair", 0, "ff_edge_group"},
      {"completion_repair", 1, "ff_edge_group"},
      // Only where somebody still works whom nobody needs something is written there.
      {"dependency", 0, "ff_pending_cancel_groups"},
      {"group_recount", 0, "ff_pending_cancel_groups"},
  };
  return all.contains({pair.name, stage_of(pair).companion, table});
}

/// A table of its own beside FlowFabric's, of which a half is in one child and the other in two.
void make_uneven(pg::Connection& db) {
  db.execute_script(
      "CREATE TABLE ff_uneven (n integer) PARTITION BY HASH (n);"
      "CREATE TABLE ff_uneven_half PARTITION OF ff_uneven FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
      "CREATE TABLE ff_uneven_quarter PARTITION OF ff_uneven FOR VALUES WITH (MODULUS 4, REMAINDER 1);"
      "CREATE TABLE ff_uneven_other PARTITION OF ff_uneven FOR VALUES WITH (MODULUS 4, REMAINDER 3)");
}

template <typename Session>
bool is_in_sight(Session& session, const std::string& tables) {
  return session.execute(reconcile::worded("SELECT {in_sight:" + tables + "}").over({}))
      .one()
      .template get<bool>(0);
}

constexpr const char* kDetachOther = "ALTER TABLE ff_uneven DETACH PARTITION ff_uneven_other";
constexpr const char* kAttachOther =
    "ALTER TABLE ff_uneven ATTACH PARTITION ff_uneven_other FOR VALUES WITH (MODULUS 4, REMAINDER 3)";

}  // namespace

TEST_CASE(
    "no reconciler concludes anything from a child that is detached, and each goes on once it is attached") {
  for (const Reconciler& pair : reconcile::all_pairs()) {
    CAPTURE(pair.name, stage_of(pair).companion);
    const Database database;
    auto db = database.connect();
    const Seeded seeded = seed(db, pair, {.partitions = kPartition});
    const auto all = untouched(db, seeded);
    for (const std::string& table : tables_of(db, pair)) {
      if (may_be_missing(pair, table)) continue;
      CAPTURE(table);
      {
        const Detached child(db, table);
        EngineFixture engine(database, pair);
        const auto report = engine->tick();
        CHECK_FALSE(report.failure);
        CHECK(report.error_count() == 0);
        CHECK(report.processed == 0);
      }
      CHECK(untouched(db, seeded) == all);
    }
    EngineFixture engine(database, pair);
    CHECK(engine->tick().processed == 1);
  }
}

TEST_CASE("a table is in sight where its children take all of the hash space, whatever their number") {
  const Database database;
  auto db = database.connect();
  make_uneven(db);
  db.execute_script(
      "CREATE TABLE ff_plain (n integer); CREATE TABLE ff_bare (n integer) PARTITION BY HASH (n)");
  CHECK(is_in_sight(db, "ff_uneven"));
  CHECK(is_in_sight(db, "ff_plain"));
  CHECK(is_in_sight(db, "ff_exec_core, ff_plain, ff_uneven"));
  CHECK_FALSE(is_in_sight(db, "ff_bare"));
  CHECK_FALSE(is_in_sight(db, "ff_exec_core, ff_bare"));
  db.execute(kDetachOther);
  CHECK_FALSE(is_in_sight(db, "ff_uneven"));
  CHECK_FALSE(is_in_sight(db, "ff_nowhere"));
  db.execute(kAttachOther);
  CHECK(is_in_sight(db, "ff_uneven"));
}

TEST_CASE("a child that is being detached concurrently is out of sight as soon as that is said") {
  const Database database;
  auto db = database.connect();
  make_uneven(db);
  auto reader = database.connect();
  pg::Transaction reading(reader);
  reading.execute("SELECT FROM ff_uneven");
  auto detaching = std::async(std::launch::async, [&] {
    auto other = database.connect();
    other.execute(std::string(kDetachOther) + " CONCURRENTLY");
  });
  bool is_out = false;
  for (int tries = 0; tries < 100 && !is_out; ++tries) {
    std::this_thread::sleep_for(Milliseconds{100});
    is_out = !is_in_sight(db, "ff_uneven");
  }
  CHECK(is_out);
  CHECK(number(db, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'ff_uneven'::regclass") == 3);
  CHECK_FALSE(is_in_sight(reading, "ff_uneven"));
  reading.rollback();
  CHECK_NOTHROW(detaching.get());
}
