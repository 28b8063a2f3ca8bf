// What `check-db` looks at of server and schema, each seen to be fine and with a fault that was made on purpose. Who is
// connected: check_db_sessions_test. What it prints and how it exits: tests/process.
#include <catch2/catch.hpp>
#include <initializer_list>
#include <sstream>

#include "check/plans.hpp"
#include "check/server.hpp"
#include "check/tables.hpp"
#include "check_db_lines.hpp"
#include "grants.hpp"
#include "support/due_rows.hpp"
#include "support/engine.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using Catch::Matchers::Contains;
using check::Line;
using check::Lines;
using check::Verdict;
using namespace std::chrono_literals;

namespace {

reconcile::Scope scope_of(const reconcile::Reconciler& pair) {
  return {sixteen_partitions(), {}, 1000, reconcile::default_settings(pair), {}};
}

check::Plans plans_of(pg::Connection& db, const std::string& name) {
  const reconcile::Reconciler& reconciler = *reconcile::find_reconciler(name);
  check::Plans plans = check::plans_of(db, reconciler, scope_of(reconciler));
  for (const reconcile::Reconciler& companion : reconciler.companions)
    plans.add(check::plans_of(db, companion, scope_of(companion)));
  return plans;
}

/// One statement after the other, as psql takes a line: what is CONCURRENTLY goes into no transaction.
void paste(pg::Connection& db, const std::string& line) {
  std::istringstream statements(line.substr(0, line.find(" --")));
  for (std::string statement; std::getline(statements, statement, ';');) db.execute_script(statement);
}

}  // namespace

TEST_CASE("a server that takes writes is fine, and one that does not is a problem") {
  const Database database;
  auto db = database.connect();
  const Lines fine = check::server(db);
  REQUIRE(fine.size() == 2);
  CHECK(fine[0].verdict == Verdict::fine);
  CHECK(fine[1].verdict == Verdict::fine);
  db.execute("SET default_transaction_read_only = on");
  const Lines faults = check::server(db);
  CHECK(faults[0].verdict == Verdict::problem);
  CHECK_THAT(faults[0].text, Contains("default_transaction_read_only"));
  CHECK(faults[1].verdict == Verdict::fine);
}

TEST_CASE("an index that is missing or invalid is a problem, and what it says makes the index") {
  const Database database;
  auto db = database.connect();
  check_fine(check::indexes(db));
  struct Fault {
    const char* how;
    const char* made;
    const char* next;
  };
  for (const Fault& fault : std::initializer_list<Fault>{
           {"missing", "DROP INDEX ff_attempt_lease_expiry_idx",
            "; CREATE INDEX IF NOT EXISTS ff_attempt_lease_expiry_idx ON ff_attempt "},
           {"missing, of a table that is not partitioned", "DROP INDEX ff_lease_event_partition_key_idx",
            "; CREATE INDEX CONCURRENTLY IF NOT EXISTS ff_lease_event_partition_key_idx ON ff_lease_event "},
           {"invalid, as a CREATE INDEX CONCURRENTLY that was ended leaves it",
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = "
            "'ff_lease_event_partition_key_idx'::regclass",
            "; DROP INDEX CONCURRENTLY ff_lease_event_partition_key_idx; CREATE INDEX CONCURRENTLY "},
           {"invalid, because a child lacks its part",
            "DROP INDEX ff_completion_event_event_id_idx;"
            "CREATE INDEX ff_completion_event_event_id_idx ON ONLY ff_completion_event (event_id)",
            "; DROP INDEX ff_completion_event_event_id_idx; CREATE INDEX IF NOT EXISTS "}}) {
    CAPTURE(fault.how);
    db.execute_script(fault.made);
    const Line line = faulty(check::indexes(db), Verdict::problem);
    CHECK_THAT(line.text, Contains("is missing or invalid"));
    CHECK_THAT(line.next, Contains(fault.next));
    paste(db, line.next);
    check_fine(check::indexes(db));
  }
}

TEST_CASE(
    "an index of the right name on other columns or rows is a problem, and what it says puts the right one "
    "there") {
  const Database database;
  auto db = database.connect();
  const auto defined = [&](const std::string& index) {
    return db.execute("SELECT pg_get_indexdef($1::regclass)", pg::Params::of(index))
        .one()
        .get<std::string>(0);
  };
  struct Other {
    std::string index;
    std::string made;   // instead
    std::string is_on;  // as it is told
    std::string wanted;
    bool concurrently;
  };
  for (const Other& other : std::vector<Other>{
           {"ff_attempt_lease_expiry_idx", "ff_attempt (partition_key, worker_id)",
            "(partition_key, worker_id)",
            "(partition_key, lease_expires_at_ms) WHERE (lease_expires_at_ms IS NOT NULL)", false},
           {"ff_completion_event_pending_dispatch_idx",
            "ff_completion_event (partition_key, committed_at_ms) WHERE dispatched_at_ms IS NOT NULL",
            "(partition_key, committed_at_ms) WHERE (dispatched_at_ms IS NOT NULL)",
            "(partition_key, committed_at_ms) WHERE (dispatched_at_ms IS NULL)", false},
           {"ff_lease_event_partition_key_idx", "ff_lease_event (event_id, partition_key)",
            "(event_id, partition_key)", "(partition_key, event_id)", true},
           {"ff_quota_admitted_expires_idx", "ff_quota_admitted USING hash (partition_key)",
            "hash (partition_key)", "(partition_key, expires_at_ms)", false},
           {"ff_exec_core_caps_gin_idx", "ff_exec_core (required_capabilities)", "(required_capabilities)",
            "gin (required_capabilities)", false}}) {
    CAPTURE(other.index);
    const std::string before = defined(other.index);
    db.execute_script("DROP INDEX " + other.index + "; CREATE INDEX " + other.index + " ON " + other.made);
    const Line line = faulty(check::indexes(db), Verdict::problem);
    CHECK_THAT(line.text, Catch::EndsWith(" is on " + other.is_on + ", and should be on " + other.wanted));
    CHECK((line.next.find("CONCURRENTLY") != std::string::npos) == other.concurrently);
    paste(db, line.next);
    CHECK(defined(other.index) == before);
    check_fine(check::indexes(db));
  }
  // More columns behind, all rows, another order: whatever looks for the one finds it there, too.
  for (const char* likewise :
       {"(partition_key, lease_expires_at_ms, worker_id)",
        "(partition_key, lease_expires_at_ms DESC) WHERE lease_expires_at_ms IS NOT NULL",
        "(partition_key DESC NULLS LAST, lease_expires_at_ms NULLS FIRST)",
        "(partition_key, lease_expires_at_ms) INCLUDE (worker_id) WITH (fillfactor = 70)"}) {
    CAPTURE(likewise);
    db.execute_script(
        "DROP INDEX ff_attempt_lease_expiry_idx; CREATE INDEX ff_attempt_lease_expiry_idx ON ff_attempt " +
        std::string(likewise));
    check_fine(check::indexes(db));
  }
}

TEST_CASE("each index of the contract can be made by what is said of it") {
  const Database database;
  auto db = database.connect();
  for (const pg::Row row :
       db.execute("SELECT c.relname::text FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid"
                  " WHERE c.relname ^@ 'ff_' AND NOT i.indisprimary AND NOT c.relispartition AND"
                  " c.relnamespace = 'public'::regnamespace"))
    db.execute("DROP INDEX IF EXISTS " + row.get<std::string>(0));
  const Lines lines = check::indexes(db);
  CHECK(lines.size() > 20);
  for (const Line& line : lines) paste(db, line.next);
  check_fine(check::indexes(db));
}

TEST_CASE("indexes and triggers are as they are where a role or a database has all names quoted") {
  const Database database;
  database.connect().execute_script("ALTER DATABASE " + database.name() + " SET quote_all_identifiers = on");
  auto quoting = database.connect();
  check_fine(check::indexes(quoting));
  check_fine(check::triggers(quoting));
  CHECK(quoting.idle());
  quoting.execute("DROP INDEX ff_attempt_lease_expiry_idx");
  paste(quoting, faulty(check::indexes(quoting), Verdict::problem).next);
  check_fine(check::indexes(quoting));
}

TEST_CASE("a database in another encoding than UTF8 is a warning that says which") {
  const Database database;
  auto db = database.connect();
  check_fine(check::encoding(db));
  const std::string encoding = GENERATE("SQL_ASCII", "LATIN1");
  const std::string name = "other_than_" + database.name();
  db.execute_script("CREATE DATABASE " + name + " TEMPLATE template0 ENCODING '" + encoding + "'");
  {
    const pg::Connector connector(options_for(Database::server().conninfo(name)));
    auto other = connector.connect(Clock::system().now() + kConnectTime);
    const Line line = faulty(check::encoding(other), Verdict::warning);
    CHECK_THAT(line.text, Catch::StartsWith(encoding + ": "));
    CHECK_THAT(line.next, Contains("ENCODING 'UTF8'"));
  }
  Database::server().drop_database(name);
}

TEST_CASE("a trigger that is switched off is a warning, and what it says switches it on") {
  const Database database;
  auto db = database.connect();
  check_fine(check::triggers(db));
  db.execute("ALTER TABLE ff_lease_event DISABLE TRIGGER USER");
  const Line line = faulty(check::triggers(db), Verdict::warning);
  CHECK_THAT(line.text, Contains("ff_lease_event"));
  db.execute_script(line.next);
  check_fine(check::triggers(db));
  for (const pg::Row row :
       db.execute("SELECT tgname::text FROM pg_trigger"
                  " WHERE tgrelid = 'ff_completion_event'::regclass AND NOT tgisinternal"))
    db.execute("DROP TRIGGER " + row.get<std::string>(0) + " ON ff_completion_event");
  CHECK_THAT(faulty(check::triggers(db), Verdict::warning).text, Contains("ff_completion_event"));
}

TEST_CASE("a trigger for each row or a rule that is not FlowFabric's is warned of where rows are written") {
  const Database database;
  auto db = database.connect();
  const std::vector<std::string> tables{"ff_attempt", "ff_attempt", "ff_stream_frame"};
  check_fine(check::row_triggers(db, tables));
  db.execute_script(
      "CREATE FUNCTION passes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;"
      "CREATE TRIGGER once BEFORE UPDATE ON ff_attempt FOR EACH STATEMENT EXECUTE FUNCTION passes();"
      "CREATE TRIGGER away BEFORE UPDATE ON ff_attempt FOR EACH ROW EXECUTE FUNCTION passes();"
      "ALTER TABLE ff_attempt DISABLE TRIGGER away;"
      "CREATE TRIGGER elsewhere BEFORE UPDATE ON ff_exec_core FOR EACH ROW EXECUTE FUNCTION passes()");
  check_fine(check::row_triggers(db, tables));
  struct Fault {
    const char* made;
    const char* text;
    const char* off;
  };
  for (const Fault& fault : std::initializer_list<Fault>{
           {"CREATE TRIGGER guard BEFORE UPDATE ON ff_attempt FOR EACH ROW EXECUTE FUNCTION passes()",
            "BEFORE trigger guard acts on each row that is written to ff_attempt: ",
            "ALTER TABLE ff_attempt DISABLE TRIGGER guard;"},
           {"CREATE TRIGGER \"A log\" AFTER INSERT ON ff_attempt_p1 FOR EACH ROW EXECUTE FUNCTION passes()",
            "AFTER trigger A log acts on each row that is written to ff_attempt_p1: ",
            "ALTER TABLE ff_attempt_p1 DISABLE TRIGGER \"A log\";"},
           {"CREATE RULE kept AS ON DELETE TO ff_stream_frame DO INSTEAD NOTHING",
            "rule kept acts on each row that is written to ff_stream_frame: ",
            "ALTER TABLE ff_stream_frame DISABLE RULE kept;"}}) {
    CAPTURE(fault.made);
    db.execute_script(fault.made);
    const Line line = faulty(check::row_triggers(db, tables), Verdict::warning);
    CHECK_THAT(line.text, Catch::StartsWith(fault.text));
    CHECK_THAT(line.next, Catch::EndsWith(fault.off));
    paste(db, line.next);  // what shows it
    db.execute_script(fault.off);
    check_fine(check::row_triggers(db, tables));
  }
}

TEST_CASE("row-level security that binds the role is named with what lifts it, and none that does not") {
  const Database database;
  auto db = database.connect();
  const std::vector<std::string> tables{"ff_attempt", "ff_attempt", "ff_edge", "ff_lease_event_event_id_seq"};
  const auto seen = [&] { return check::row_security(db, tables, Verdict::problem, "somebody needs"); };
  db.execute_script(
      "ALTER TABLE ff_attempt ENABLE ROW LEVEL SECURITY; ALTER TABLE ff_flow_core ENABLE ROW LEVEL SECURITY;"
      "ALTER TABLE ff_edge_p1 ENABLE ROW LEVEL SECURITY; ALTER TABLE ff_edge ENABLE ROW LEVEL SECURITY;"
      "CREATE ROLE bound; GRANT SELECT ON ff_attempt TO bound; ALTER TABLE ff_edge OWNER TO bound");
  CHECK(seen().empty());  // a superuser's
  db.execute("SET ROLE bound");
  const Line line = faulty(seen(), Verdict::problem);  // not of the table that it owns
  CHECK(line.text ==
        "row-level security may hide rows of public.ff_attempt from bound, all of which somebody needs");
  const std::string of_table = "ALTER TABLE public.ff_attempt DISABLE ROW LEVEL SECURITY;";
  CHECK_THAT(line.next, Catch::StartsWith("ALTER ROLE bound BYPASSRLS; -- ") && Catch::EndsWith(of_table));
  db.execute_script("RESET ROLE; " + of_table +
                    " ALTER TABLE ff_edge FORCE ROW LEVEL SECURITY; SET ROLE bound");
  CHECK_THAT(faulty(seen(), Verdict::problem).next,
             Catch::EndsWith("ALTER TABLE public.ff_edge NO FORCE ROW LEVEL SECURITY;"));
  db.execute_script("RESET ROLE; ALTER ROLE bound BYPASSRLS; SET ROLE bound");
  CHECK(seen().empty());
  db.execute_script(
      "RESET ROLE; REASSIGN OWNED BY bound TO CURRENT_USER; DROP OWNED BY bound; DROP ROLE bound");
}

TEST_CASE("who may create in the schemas on the path is a stranger, unless they are his") {
  const Database database;
  auto db = database.connect();
  check_fine(check::strangers(db));
  const std::string role = "stranger_of_" + database.name();
  db.execute_script("CREATE ROLE \"" + role + "\"; GRANT CREATE ON SCHEMA public TO \"" + role + "\"");
  const Line line = faulty(check::strangers(db), Verdict::warning);
  CHECK_THAT(line.text, Contains(role + " may create in schema public"));
  db.execute_script(line.next);
  check_fine(check::strangers(db));
  db.execute_script("CREATE SCHEMA earlier; GRANT CREATE ON SCHEMA earlier TO PUBLIC");
  check_fine(check::strangers(db));  // not on the path
  db.execute("SET search_path = earlier, public");
  CHECK_THAT(faulty(check::strangers(db), Verdict::warning).text,
             Contains("everybody may create in schema earlier"));
  db.execute_script("DROP ROLE \"" + role + "\"");
}

TEST_CASE("a schema that is not fit, or not found, is a problem") {
  const Database database;
  auto db = database.connect();
  check_fine(check::schema(db, migrate::inspect(db)));
  SECTION("a column is missing") {
    db.execute("ALTER TABLE ff_attempt DROP COLUMN outcome");
    CHECK_THAT(faulty(check::schema(db, migrate::inspect(db)), Verdict::problem).text,
               Contains("column ff_attempt.outcome is missing"));
  }
  SECTION("a migration is missing") {
    db.execute("DELETE FROM ff_reconciler_migration WHERE version = 10");
    CHECK_THAT(faulty(check::schema(db, migrate::inspect(db)), Verdict::problem).next,
               Contains("ff-reconcilerd migrate up"));
  }
  SECTION("not on the path") {
    db.execute("ALTER DATABASE " + database.name() + " SET search_path = pg_catalog");
    auto lost = database.connect();
    const auto problems = migrate::inspect(lost).problems;  // as the daemon and `status` tell them
    REQUIRE(problems.size() == 1);
    CHECK_THAT(problems[0], Contains("is not on the search_path of") && Contains("SET search_path = public"));
    const Line line = faulty(check::schema(lost, migrate::inspect(lost)), Verdict::problem);
    CHECK_THAT(line.text, Contains("schema public") && Contains("search_path"));
    CHECK_THAT(line.next, Contains("SET search_path = public"));
  }
  SECTION("on the path, behind a copy of one table") {
    db.execute_script(
        "CREATE SCHEMA \"Earlier\"; CREATE TABLE \"Earlier\".ff_exec_core (LIKE public.ff_exec_core)");
    db.execute("ALTER DATABASE " + database.name() + " SET search_path = \"Earlier\", public");
    const pg::Connector connector({.conninfo = database.conninfo(), .relation = "ff_exec_core"});
    auto misled = connector.connect(Clock::system().now() + kConnectTime);
    const Line line = faulty(check::schema(misled, migrate::inspect(misled)), Verdict::problem);
    CHECK_THAT(line.text,
               Contains("schema public, where there are such tables, is behind schema \"Earlier\"") &&
                   !Contains("is not on"));
    CHECK_THAT(line.next, Contains("SET search_path = public, \"Earlier\";"));
  }
  SECTION("there is none") {
    const Database empty{empty_database()};
    auto bare = empty.connect();
    CHECK_THAT(faulty(check::schema(bare, migrate::inspect(bare)), Verdict::problem).text,
               Contains("no schema yet"));
  }
}

TEST_CASE("a server that is too old is said once, and not as a fault of the schema") {
  const Database database;
  auto db = database.connect();
  migrate::State state = migrate::inspect(db);
  CHECK_FALSE(state.server_too_old);
  state.server_too_old = migrate::too_old(140022, "14.22");
  REQUIRE(state.server_too_old);
  state.problems.push_back(*state.server_too_old);
  check_fine(check::schema(db, state));
  state.problems.emplace_back("table ff_attempt is missing");
  CHECK_THAT(faulty(check::schema(db, state), Verdict::problem).text, Contains("ff_attempt"));
}

TEST_CASE("a scan that has no index reads the whole table, and its plan says so") {
  const Database database;
  auto db = database.connect();
  db.execute(
      "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
      " SELECT gen_random_uuid()::text, 'acquired', 1, i % 16 FROM generate_series(1, 20000) i");
  db.execute_script("ANALYZE");
  const auto before = snapshot(db);
  for (const reconcile::Reconciler& reconciler : reconcile::registry()) {
    CAPTURE(reconciler.name);
    const check::Plans plans = plans_of(db, std::string(reconciler.name));
    CHECK(plans.wholly_read.empty());
    CHECK_FALSE(plans.indexes.empty());
    CHECK(plans.most_locks > 0);
  }
  CHECK(plans_of(db, "lease_expiry").indexes.contains("ff_attempt_lease_expiry_idx"));
  db.execute("DROP INDEX ff_lease_event_partition_key_idx");
  CHECK(plans_of(db, "suspension_timeout").wholly_read == std::set<std::string>{"ff_lease_event"});
  CHECK(diff(before, snapshot(db)).empty());
  CHECK(number(db,
               "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation::regclass::text ^@ "
               "'ff_'") == 0);
}

TEST_CASE("each scan looks into the index that leads to what is due, and one that does not is found out") {
  const Database database;
  auto db = database.connect();
  insert_due_rows(db, {.partitions = 16, .per_partition = 600, .one_due_in = 20, .crowded = 0});
  db.execute_script("ANALYZE");
  for (const reconcile::Reconciler& reconciler : reconcile::registry()) {
    CAPTURE(reconciler.name);
    const std::string name(reconciler.name);
    for (const reconcile::Lead& lead : check::unused(db, reconciler, plans_of(db, name).indexes)) {
      CAPTURE(lead.index);
      CHECK(lead.index.empty());
    }
  }
  std::set<std::string_view> noticed;
  for (const reconcile::Reconciler& reconciler : reconcile::registry())
    for (const reconcile::Lead& lead : check::unused(db, reconciler, {})) noticed.insert(lead.index);
  CHECK(noticed.size() >= 7);  // of those whose tables are large here
  db.execute("DROP INDEX ff_attempt_lease_expiry_idx");
  for (const char* name : {"lease_expiry", "attempt_timeout"}) {
    const auto unused = check::unused(db, *reconcile::find_reconciler(name), plans_of(db, name).indexes);
    REQUIRE(unused.size() == 1);
    CHECK(unused[0].index == "ff_attempt_lease_expiry_idx");
  }
}
