#include <algorithm>
#include <map>

#include "migrate/contract.hpp"
#include "migrate/migrate.hpp"

namespace ff::migrate {
namespace {

constexpr int kOldestServer = 150000;

constexpr std::string_view kWhatIsThere = R"(
  SELECT to_regclass('ff_reconciler_migration') IS NOT NULL AS ledger,
         to_regclass('ff_migration_annotation') IS NOT NULL AS annotation,
         current_setting('server_version_num')::integer AS server_version,
         current_setting('server_version') AS server_version_text)";

constexpr std::string_view kLedger =
    "SELECT version, checksum, fan_out FROM ff_reconciler_migration ORDER BY version";

constexpr std::string_view kAnnotation =
    "SELECT coalesce(max(version), 0) AS level FROM ff_migration_annotation";

constexpr std::string_view kPartitionConfig =
    "SELECT EXISTS (SELECT FROM ff_partition_config WHERE num_flow_partitions > 0 AND num_budget_partitions "
    "> 0)";

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

void check_levels(State& state) {
  if (state.origin == Origin::none) state.problems.emplace_back("the database has no schema yet");
  if (state.origin == Origin::flowfabric && state.flowfabric_level < kFlowFabricLevel)
    state.problems.push_back("schema level " + std::to_string(state.flowfabric_level) +
                             " of FlowFabric, needed " + std::to_string(kFlowFabricLevel));
  if (state.origin == Origin::ours && !state.pending.empty())
    state.problems.push_back("schema level " + std::to_string(state.pending.front().version - 1) +
                             ", needed " + std::to_string(migrations().back().version));
  state.problems.insert(state.problems.end(), state.changed.begin(), state.changed.end());
}

void check_contract(pg::Connection& connection, State& state) {
  Differences found = compare_with_contract(connection);
  if (found.problems.empty() && !connection.execute(kPartitionConfig).one().get<bool>(0))
    found.problems.emplace_back("table ff_partition_config has no row");
  state.problems.insert(state.problems.end(), found.problems.begin(), found.problems.end());
  state.warnings = std::move(found.warnings);
}

}  // namespace

State inspect(pg::Connection& connection) {
  State state;
  const pg::Result result = connection.execute(kWhatIsThere);
  const pg::Row there = result.one();
  const bool ledger = there.get<bool>("ledger");
  const bool annotation = there.get<bool>("annotation");
  if (annotation) state.flowfabric_level = connection.execute(kAnnotation).one().get<std::int32_t>("level");
  if (annotation && (!ledger || state.flowfabric_level > 0))
    state.origin = Origin::flowfabric;
  else if (ledger)
    state.origin = Origin::ours;

  if (state.origin == Origin::ours)
    read_ledger(connection, state);
  else if (state.origin == Origin::none)
    state.pending = migrations();
  if (there.get<std::int32_t>("server_version") < kOldestServer)
    state.problems.push_back("PostgreSQL " + there.get<std::string>("server_version_text") +
                             " is too old, 15 is needed");
  check_levels(state);
  // A schema that is known to be unfinished would only fill pages with what is missing.
  if (state.origin != Origin::none && state.pending.empty()) check_contract(connection, state);
  return state;
}

}  // namespace ff::migrate
