// The schema that our migrations make beside the one that FlowFabric's make, and what is known of the latter.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>

#include "migrate/migrate.hpp"
#include "pg/transaction.hpp"
#include "support/database.hpp"
#include "support/flowfabric.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;

namespace {

using Lines = std::vector<std::string>;

// A line for each table, column, constraint, index, sequence and trigger, without the hash children and what each
// side keeps for itself. Whether a trigger fires for a row or for a statement is left out: what it does is compared
// by having it do it.
constexpr std::string_view kCatalogue = R"(
  WITH relation AS (
    SELECT oid, relname AS name FROM pg_class
     WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
       AND relname NOT IN ('_sqlx_migrations', 'ff_reconciler_migration', 'ff_reconciler_pause', 'ff_reconciler_release')
  )
  SELECT concat_ws(' ', 'table', name, pg_get_partkeydef(oid)) AS line FROM relation
  UNION ALL
  SELECT concat_ws(' ', 'column', r.name, a.attname, format_type(a.atttypid, a.atttypmod),
                   CASE WHEN a.attnotnull THEN 'not null' END, 'identity ' || nullif(a.attidentity::text, ''),
                   'generated ' || nullif(a.attgenerated::text, ''), 'default ' || pg_get_expr(d.adbin, d.adrelid))
    FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
  UNION ALL
  SELECT concat_ws(' ', 'constraint', r.name, c.conname, pg_get_constraintdef(c.oid),
                   CASE WHEN NOT c.convalidated THEN 'not valid' END)
    FROM relation r JOIN pg_constraint c ON c.conrelid = r.oid
  UNION ALL
  SELECT concat_ws(' ', 'index', pg_get_indexdef(i.indexrelid), CASE WHEN NOT i.indisvalid THEN 'not valid' END)
    FROM relation r JOIN pg_index i ON i.indrelid = r.oid
  UNION ALL
  SELECT concat_ws(' ', 'sequence', r.name, s.relname, format_type(q.seqtypid, NULL), q.seqstart, q.seqincrement,
                   q.seqmin, q.seqmax, 'cache', q.seqcache, CASE WHEN q.seqcycle THEN 'cycle' END)
    FROM relation r JOIN pg_depend d ON d.refobjid = r.oid AND d.deptype IN ('a', 'i')
    JOIN pg_class s ON s.oid = d.objid AND d.classid = 'pg_class'::regclass AND s.relkind = 'S'
    JOIN pg_sequence q ON q.seqrelid = s.oid
  UNION ALL
  SELECT concat_ws(' ', 'trigger', r.name, t.tgname, t.tgtype & ~1, f.proname, t.tgenabled)
    FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid AND NOT t.tgisinternal JOIN pg_proc f ON f.oid = t.tgfoid
   ORDER BY line)";

// A pg_notify that the search path puts before the server's own, and that writes down what it is asked.
constexpr const char* kAnnounce = R"(
  CREATE TABLE notified (channel text, payload text);
  CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE sql AS
    $f$ INSERT INTO notified VALUES ($1, $2) $f$;
  SET LOCAL search_path = public, pg_catalog;
  ALTER TABLE ff_completion_event ALTER event_id RESTART WITH 501;
  ALTER SEQUENCE ff_lease_event_event_id_seq RESTART WITH 601;
  ALTER SEQUENCE ff_signal_event_event_id_seq RESTART WITH 701;
  ALTER SEQUENCE ff_operator_event_event_id_seq RESTART WITH 801;
  INSERT INTO ff_completion_event (partition_key, execution_id, outcome, occurred_at_ms)
    VALUES (1, gen_random_uuid(), 'success', 1);
  INSERT INTO ff_lease_event (partition_key, execution_id, event_type, occurred_at_ms) VALUES (1, 'x', 'expired', 1);
  INSERT INTO ff_signal_event (partition_key, execution_id, signal_id, delivered_at_ms) VALUES (1, 'x', 's', 1);
  INSERT INTO ff_operator_event (partition_key, execution_id, event_type, occurred_at_ms)
    VALUES (1, 'x', 'replayed', 1);
  INSERT INTO ff_stream_frame (partition_key, execution_id, attempt_index, ts_ms, seq, fields, mode, created_at_ms)
    VALUES (1, '0190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8d', 2, 34, 5, '{}', 'durable', 1))";

Lines lines(pg::Connection& connection, std::string_view query) {
  Lines all;
  for (const pg::Row row : connection.execute(query)) all.push_back(row.get<std::string>(0));
  return all;
}

Lines announced(pg::Connection& connection) {
  const pg::Transaction rolled_back(connection);
  connection.execute_script(kAnnounce);
  return lines(connection, "SELECT channel || ' ' || payload FROM notified ORDER BY 1");
}

Lines only_in(const Lines& some, const Lines& others) {
  Lines rest;
  std::set_difference(some.begin(), some.end(), others.begin(), others.end(), std::back_inserter(rest));
  return rest;
}

std::string phase(pg::Connection& db, const std::string& execution) {
  return db
      .execute("SELECT lifecycle_phase FROM ff_exec_core WHERE execution_id = $1::uuid",
               pg::Params::of(execution))
      .one()
      .get<std::string>(0);
}

/// So many for as long as it lives: the database outlives the test.
class FlowPartitions {
 public:
  FlowPartitions(const FlowFabricDatabase& database, int count) : connection_(database.connect()) {
    set(count);
  }
  ~FlowPartitions() { set(256); }
  FlowPartitions(const FlowPartitions&) = delete;
  FlowPartitions& operator=(const FlowPartitions&) = delete;

 private:
  void set(int count) {
    connection_.execute("UPDATE ff_partition_config SET num_flow_partitions = $1",
                        pg::Params::of(std::int32_t{count}));
  }
  pg::Connection connection_;
};

}  // namespace

TEST_CASE("our migrations make the catalogue that FlowFabric's make") {
  FlowFabricDatabase theirs;
  Database ours;
  auto their_connection = theirs.connect();
  auto our_connection = ours.connect();
  Lines their_lines = lines(their_connection, kCatalogue);
  Lines our_lines = lines(our_connection, kCatalogue);
  std::sort(their_lines.begin(), their_lines.end());
  std::sort(our_lines.begin(), our_lines.end());
  REQUIRE(their_lines.size() > 400);
  CHECK(only_in(their_lines, our_lines) == Lines{});
  CHECK(only_in(our_lines, their_lines) == Lines{});
}

TEST_CASE("both schemas announce what is inserted on the same channels in the same words") {
  FlowFabricDatabase theirs;
  Database ours;
  auto their_connection = theirs.connect();
  auto our_connection = ours.connect();
  const Lines heard = announced(their_connection);
  CHECK(heard == Lines{"ff_completion 501", "ff_lease_event 601", "ff_operator_event 801",
                       "ff_signal_event 701", "ff_stream_0190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8d_2 34-5"});
  CHECK(announced(our_connection) == heard);
}

TEST_CASE("a database that FlowFabric made is fit, whatever its annotation lacks") {
  FlowFabricDatabase database;
  auto connection = database.connect();
  const auto state = migrate::inspect(connection);
  CHECK(state.origin == migrate::Origin::flowfabric);
  CHECK(state.problems == Lines{});
  CHECK(state.warnings == Lines{});
  CHECK(migrate::version_text(state) == "version 22 (by its annotation 20)");
}

TEST_CASE("leases of real workers beyond the first 256 partitions are taken back") {
  FlowFabricDatabase database;
  const FlowPartitions wide(database, 1024);
  auto db = database.connect();
  FlowFabric flowfabric(database.url(), {"--flow-partitions", "1024"});
  std::vector<std::string> left_lying;
  for (const int partition : {3, 255, 256, 1023}) {
    const Json made = flowfabric.call("create_execution",
                                      {{"partition", partition}, {"runnable", "pending_first_attempt"}});
    flowfabric.call("write_grant", {{"execution", made.at("execution")}});
    flowfabric.call("claim_execution", {{"execution", made.at("execution")}, {"ttl_ms", 1}});
    left_lying.push_back(made.at("uuid"));
  }

  RunningDaemon daemon({.conninfo = database.conninfo(), .config = "recovery_grace: 0s\n"});
  CHECK(wait_until([&] { return daemon.ready(); }));
  for (const std::string& execution : left_lying) {
    CAPTURE(execution);
    CHECK(wait_until([&] { return phase(db, execution) == "runnable"; }));
  }
  CHECK(daemon.stop() == 0);
}
