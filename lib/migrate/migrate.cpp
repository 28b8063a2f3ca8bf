#include "migrate/migrate.hpp"

#include "base/printable.hpp"
#include "base/time.hpp"
#include "pg/transaction.hpp"

namespace ff::migrate {
namespace {

// An arbitrary number; ff_reconciler_create_children() takes the same.
constexpr std::string_view kLock = "SELECT pg_advisory_xact_lock(7378413942531219554)";
// The same for a script: without a row for psql to print.
constexpr std::string_view kQuietLock =
    "DO $lock$ BEGIN PERFORM pg_advisory_xact_lock(7378413942531219554); END $lock$;\n";

// Making children may take long on a slow disk, and is no reason to give up.
constexpr std::chrono::minutes kLongestCall{30};

constexpr std::string_view kLedgerExists =
    "SELECT to_regclass({schema_text} || 'ff_reconciler_migration') IS NOT NULL";
// $1 version
constexpr std::string_view kRecorded =
    "SELECT EXISTS (SELECT FROM {schema}.ff_reconciler_migration WHERE version = $1)";
// $1 version, $2 name, $3 checksum, $4 fan-out, kept from the first migration on
constexpr std::string_view kRecord = R"(
  INSERT INTO {schema}.ff_reconciler_migration (version, name, checksum, applied_at_ms, fan_out)
  VALUES ($1, $2, $3, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
          coalesce((SELECT fan_out FROM {schema}.ff_reconciler_migration WHERE version = 1), $4))
  ON CONFLICT (version) DO NOTHING)";

void check_fan_out(int fan_out) {
  if (fan_out < 1 || fan_out > kMaxFanOut)
    throw std::invalid_argument("the fan-out has to be between 1 and " + std::to_string(kMaxFanOut));
}

bool recorded(pg::Transaction& transaction, const Migration& migration) {
  if (!transaction.execute(kLedgerExists).one().get<bool>(0)) return false;
  return transaction.execute(kRecorded, pg::Params::of(std::int32_t{migration.version})).one().get<bool>(0);
}

/// Begins a transaction's work: alone among migrators, however long that takes within statement_timeout.
void take_lock(pg::Transaction& transaction) {
  transaction.execute("SELECT set_config('lock_timeout', '0', true)");
  transaction.execute(kLock);
}

// What the session finds tables by, and so where a file that names no schema makes its own.
void take_default_path(pg::Transaction& transaction) {
  transaction.execute("SET LOCAL search_path TO DEFAULT");
}

// A table of our own is looked for beside the others, and another schema may stand on the path before theirs. Nothing is
// known of it where the connection is older than they are.
void take_path_of_tables(pg::Transaction& transaction) {
  take_default_path(transaction);
  transaction.execute(
      "SELECT set_config('search_path', left({schema_text}, -1), true) WHERE {schema_text} <> ''");
}

/// In FlowFabric's database, where nothing is recorded, or where it was and the table is gone: what the file says IF NOT EXISTS of can be repeated.
void make_own_table(pg::Connection& connection, const Migration& migration) {
  pg::Transaction transaction(connection);
  take_lock(transaction);
  take_path_of_tables(transaction);
  transaction.execute("SELECT set_config('client_min_messages', 'warning', true)");
  connection.execute_script(std::string(migration.sql));
  transaction.commit();
}

// Not before FlowFabric has made its own. A role that may only read goes on verifying.
Report make_own_tables(pg::Connection& connection, const State& before,
                       const std::function<void(const Migration&)>& on_applied) {
  Report report;
  std::vector<std::string> refused;
  for (const Migration& migration : before.usable() ? before.pending : std::vector<Migration>{}) {
    try {
      make_own_table(connection, migration);
    } catch (const pg::Error& error) {
      if (!error.lacks_privilege()) throw;
      refused.push_back("table " + migration.own_table() + " is not made: " + printable(error.what()));
      continue;
    }
    report.applied.push_back(migration.version);
    if (on_applied) on_applied(migration);
  }
  report.state = inspect(connection);
  report.state.warnings.insert(report.state.warnings.end(), refused.begin(), refused.end());
  return report;
}

/// Returns false where another migrator recorded it meanwhile.
bool apply(pg::Connection& connection, const Migration& migration, int fan_out) {
  for (const Step& step : steps(migration.sql)) {
    pg::Transaction transaction(connection);
    take_lock(transaction);
    if (recorded(transaction, migration)) return false;
    if (step.commits_itself) {
      transaction.rollback();
      connection.execute_script(std::string(step.sql), Clock::system().now() + kLongestCall);
    } else {
      migration.is_own() ? take_path_of_tables(transaction) : take_default_path(transaction);
      // What a file says IF NOT EXISTS of would be a notice when it is resumed.
      transaction.execute("SELECT set_config('client_min_messages', 'warning', true)");
      connection.execute_script(std::string(step.sql));
      transaction.commit();
    }
  }
  pg::Transaction transaction(connection);
  take_lock(transaction);
  const auto record = pg::Params::of(std::int32_t{migration.version}, migration.name, migration.checksum,
                                     std::int32_t{fan_out});
  const bool ours = transaction.execute(kRecord, record).affected() == 1;
  transaction.commit();
  return ours;
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : "; ") + sentence;
  return text;
}

// Whether FlowFabric made the database, by the rule of inspect(). Where there are tables already, all that follows goes
// beside them, though another schema may stand before theirs on the path.
constexpr std::string_view kOrigin = R"(DO $origin$
DECLARE
  rows bigint := 0;
  made boolean := false;
BEGIN
  IF to_regclass('ff_migration_annotation') IS NOT NULL THEN
    EXECUTE 'SELECT count(*) FROM ff_migration_annotation' INTO rows;
    made := rows > 0 OR to_regclass('ff_reconciler_migration') IS NULL;
  END IF;
  IF made AND to_regclass('ff_exec_core') IS NULL THEN
    RAISE EXCEPTION 'FlowFabric''s own migrations have not made its tables yet';
  END IF;
  PERFORM set_config('ff.made_by_flowfabric', made::text, false);
  PERFORM set_config('search_path', quote_ident(n.nspname), false)
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = coalesce(to_regclass('ff_exec_core'), to_regclass('ff_reconciler_migration'));
END
$origin$;
SELECT current_setting('ff.made_by_flowfabric') AS made_by_flowfabric \gset
)";

// In FlowFabric's database.
void append_own_tables(std::string& script) {
  const std::string begin = "BEGIN;\n" + std::string(kQuietLock);
  for (const Migration& migration : migrations()) {
    if (!migration.is_own()) continue;
    script += "SELECT to_regclass('" + migration.own_table() +
              "') IS NULL AS pending \\gset\n\\if :pending\n" + begin + std::string(migration.sql) +
              "COMMIT;\n\\endif\n";
  }
}

void append_migration(std::string& script, const Migration& migration, int fan_out) {
  const std::string begin = "BEGIN;\n" + std::string(kQuietLock);
  for (const Step& step : steps(migration.sql)) {
    if (step.commits_itself)
      script += step.sql;
    else
      script += begin + std::string(step.sql) + "COMMIT;\n";
  }
  script +=
      begin +
      "INSERT INTO ff_reconciler_migration (version, name, checksum, applied_at_ms, fan_out)\nSELECT " +
      std::to_string(migration.version) + ", '" + std::string(migration.name) + "', '" +
      std::string(migration.checksum) +
      "', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,\n       coalesce((SELECT fan_out FROM "
      "ff_reconciler_migration WHERE version = 1), " +
      std::to_string(fan_out) + ")\nON CONFLICT (version) DO NOTHING;\nCOMMIT;\n";
}

}  // namespace

Report up(pg::Connection& connection, int fan_out, const std::function<void(const Migration&)>& on_applied) {
  check_fan_out(fan_out);
  const State before = inspect(connection);
  if (!before.changed.empty()) throw Refused(joined(before.changed));
  if (before.origin == Origin::flowfabric) return make_own_tables(connection, before, on_applied);
  Report report;
  for (const Migration& migration : before.pending) {
    if (!apply(connection, migration, fan_out)) {
      const bool dropped = migration.is_own() && migration.version <= before.level;
      if (!dropped) continue;
      make_own_table(connection, migration);
    }
    report.applied.push_back(migration.version);
    if (on_applied) on_applied(migration);
  }
  report.state = inspect(connection);
  return report;
}

std::string sql(int fan_out) {
  check_fan_out(fan_out);
  std::string text = "\\set ON_ERROR_STOP on\nSET client_min_messages = warning;\nSET ff.fan_out = " +
                     std::to_string(fan_out) + ";\n" + std::string(kOrigin) + "\\if :made_by_flowfabric\n";
  append_own_tables(text);
  text += "\\else\n";
  for (const Migration& migration : migrations()) {
    const std::string version = std::to_string(migration.version);
    text += "\n-- Migration " + version + ": " + std::string(migration.name) + "\n";
    // The first one makes the ledger, so that nothing can be looked up before; it can be repeated.
    if (migration.version > 1)
      text += "SELECT NOT EXISTS (SELECT FROM ff_reconciler_migration WHERE version = " + version +
              ") AS pending \\gset\n\\if :pending\n";
    append_migration(text, migration, fan_out);
    if (migration.version > 1) text += "\\endif\n";
  }
  return text + "\\endif\n";
}

}  // namespace ff::migrate
