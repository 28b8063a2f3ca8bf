#include <algorithm>
#include <map>

#include "migrate/contract.hpp"
#include "migrate/migrate.hpp"
#include "pg/transaction.hpp"

namespace ff::migrate {
namespace {

constexpr int kOldestServer = 150000;

constexpr std::string_view kWhatIsThere = R"(
  SELECT to_regclass({schema_text} || 'ff_reconciler_migration') IS NOT NULL AS ledger,
         to_regclass({schema_text} || 'ff_migration_annotation') IS NOT NULL AS annotation,
         coalesce(has_table_privilege(to_regclass({schema_text} || 'ff_migration_annotation'), 'SELECT'), false)
           AS annotation_readable,
         coalesce(has_table_privilege(to_regclass({schema_text} || '_sqlx_migrations'), 'SELECT'), false) AS sqlx_readable,
         current_setting('server_version_num')::integer AS server_version,
         current_setting('server_version') AS server_version_text)";

constexpr std::string_view kLedger =
    "SELECT version, checksum, fan_out FROM {schema}.ff_reconciler_migration ORDER BY version";

constexpr std::string_view kAnnotation =
    "SELECT coalesce(max(version), 0) FROM {schema}.ff_migration_annotation";

constexpr std::string_view kFlowFabricLedger =
    "SELECT coalesce(max(version) FILTER (WHERE success), 0)::integer FROM {schema}._sqlx_migrations";

// With a sentence where it cannot be worked with. The keys of partitions are smallint.
constexpr std::string_view kPartitionConfig = R"(
  SELECT c.num_flow_partitions,
         CASE WHEN c.num_flow_partitions IS NULL THEN 'table ff_partition_config has no row'
              WHEN (c.num_flow_partitions BETWEEN 1 AND 32768 AND c.num_budget_partitions BETWEEN 1 AND 32768
                    AND c.num_quota_partitions BETWEEN 1 AND 32768) IS NOT TRUE
              THEN format('ff_partition_config has %s flow, %s budget and %s quota partitions, 1 to 32768 are possible',
                          c.num_flow_partitions, c.num_budget_partitions, c.num_quota_partitions) END AS problem
    FROM (VALUES (1)) AS once LEFT JOIN {schema}.ff_partition_config c ON true
   LIMIT 1)";

// $1 tables of our own
constexpr std::string_view kMissingTables =
    "SELECT name FROM unnest($1) AS name WHERE to_regclass({schema_text} || name) IS NULL";

std::string label(const Migration& migration) {
  return std::to_string(migration.version) + " (" + std::string(migration.name) + ")";
}

void read_ledger(pg::Connection& connection, State& state) {
  std::map<int, std::string> recorded;
  for (const pg::Row row : connection.execute(kLedger)) {
    const auto version = row.get<std::int32_t>("version");
    recorded[version] = row.get<std::string>("checksum");
    state.level = std::max(state.level, static_cast<int>(version));
    if (version == 1) state.fan_out = row.get<std::optional<std::int32_t>>("fan_out");
  }
  for (const Migration& migration : migrations()) {
    const auto found = recorded.find(migration.version);
    if (found == recorded.end())
      state.pending.push_back(migration);
    else if (found->second != migration.checksum)
      state.changed.push_back("migration " + label(migration) +
                              " is not the one that was applied: the ledger has another checksum");
  }
}

// No ledger of ours is in FlowFabric's database: what is there tells what has run. And one that is recorded may have been
// dropped since.
void add_missing_own_tables(pg::Connection& connection, State& state) {
  std::vector<std::string> tables;
  for (const Migration& migration : migrations())
    if (migration.is_own()) tables.push_back(migration.own_table());
  for (const pg::Row row : connection.execute(kMissingTables, pg::Params::of(tables)))
    for (const Migration& migration : migrations())
      if (migration.is_own() && migration.own_table() == row.get<std::string>(0) &&
          std::ranges::find(state.pending, migration.version, &Migration::version) == state.pending.end())
        state.pending.push_back(migration);
  std::ranges::sort(state.pending, {}, &Migration::version);
}

// The reconcilers cannot do without it.
const Migration* first_needed(const std::vector<Migration>& of) {
  const auto found = std::ranges::find_if(of, [](const Migration& migration) { return !migration.is_own(); });
  return found == of.end() ? nullptr : &*found;
}

void check_level(State& state) {
  if (const Migration* first = first_needed(state.pending); first != nullptr && state.origin == Origin::ours)
    state.problems.push_back("schema level " + std::to_string(first->version - 1) + ", needed " +
                             std::to_string(migrations().back().version));
  state.problems.insert(state.problems.end(), state.changed.begin(), state.changed.end());
}

void check_contract(pg::Connection& connection, State& state) {
  Differences found = compare_with_contract(connection);
  if (found.problems.empty())
    if (const auto problem = connection.execute(kPartitionConfig).one().get<std::optional<std::string>>(1))
      found.problems.push_back(*problem);
  state.problems.insert(state.problems.end(), found.problems.begin(), found.problems.end());
  state.warnings = std::move(found.warnings);
}

// Whoever took it for a database without a schema would make a second one.
void look_elsewhere(pg::Connection& connection, State& state) {
  state.elsewhere = tables_elsewhere(connection);
  for (const Missing& one : state.elsewhere) state.problems.push_back(one.sentence + "; " + one.next);
  if (state.elsewhere.empty()) state.problems.emplace_back("the database has no schema yet");
}

// What the session finds.
State look(pg::Connection& connection) {
  pg::Transaction transaction(connection);  // for its settings: a role's own might have names quoted
  State state;
  const pg::Result result = connection.execute(kWhatIsThere);
  const pg::Row there = result.one();
  const bool ledger = there.get<bool>("ledger");
  if (there.get<bool>("annotation_readable"))
    state.flowfabric_annotation = connection.execute(kAnnotation).one().get<std::int32_t>(0);
  if (there.get<bool>("annotation") && (!ledger || state.flowfabric_annotation.value_or(0) > 0))
    state.origin = Origin::flowfabric;
  else if (ledger)
    state.origin = Origin::ours;

  // Elsewhere a table of that name is some other program's.
  if (state.origin == Origin::flowfabric && there.get<bool>("sqlx_readable"))
    state.flowfabric_ledger = connection.execute(kFlowFabricLedger).one().get<std::int32_t>(0);
  if (state.origin == Origin::ours)
    read_ledger(connection, state);
  else if (state.origin == Origin::none)
    state.pending = migrations();
  if (state.origin != Origin::none) add_missing_own_tables(connection, state);
  state.server_too_old =
      too_old(there.get<std::int32_t>("server_version"), there.get<std::string>("server_version_text"));
  if (state.server_too_old) state.problems.push_back(*state.server_too_old);
  check_level(state);
  // A schema that is known to be unfinished would only fill pages with what is missing.
  if (state.origin != Origin::none && first_needed(state.pending) == nullptr)
    check_contract(connection, state);
  return state;
}

}  // namespace

std::optional<std::string> too_old(int version_number, std::string_view version) {
  if (version_number >= kOldestServer) return std::nullopt;
  return "PostgreSQL " + std::string(version) + " is too old, 15 is needed";
}

void refuse_if_elsewhere(pg::Connection& connection) {
  if (!connection.idle()) return;
  State state;
  try {
    state = inspect(connection);
  } catch (const pg::Error&) {
    return;  // it says less than what has failed
  }
  if (state.elsewhere.empty()) return;
  std::string why;
  for (const std::string& problem : state.problems) why += (why.empty() ? "" : "; ") + problem;
  throw TablesElsewhere(why);
}

int flow_partitions(pg::Connection& connection, std::optional<SteadyTime> deadline) {
  const auto read = [&] {
    return deadline ? connection.execute(kPartitionConfig, {}, *deadline)
                    : connection.execute(kPartitionConfig);
  };
  std::optional<pg::Result> result;
  try {
    result.emplace(read());
  } catch (const pg::Error& error) {
    if (error.schema_mismatch()) refuse_if_elsewhere(connection);
    throw;
  }
  const pg::Row row = result->one();
  if (const auto problem = row.get<std::optional<std::string>>(1)) throw UnusablePartitions(*problem);
  return row.get<std::int32_t>(0);
}

std::string version_text(const State& state) {
  if (state.schema_version() == 0)
    return state.origin == Origin::flowfabric && !state.flowfabric_annotation
               ? "version not for this role to read"
               : "version not known";
  std::string text = "version " + std::to_string(state.schema_version());
  if (state.origin == Origin::flowfabric && state.flowfabric_annotation &&
      *state.flowfabric_annotation != state.schema_version())
    text += " (by its annotation " + std::to_string(*state.flowfabric_annotation) + ")";
  return text;
}

State inspect(pg::Connection& connection) {
  State state = look(connection);
  if (state.origin == Origin::none) look_elsewhere(connection, state);
  return state;
}

}  // namespace ff::migrate
