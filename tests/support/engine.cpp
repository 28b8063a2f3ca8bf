#include "support/engine.hpp"

#include <stdexcept>

#include "pg/transaction.hpp"
#include "reconcile/action.hpp"
#include "reconcile/prelude.hpp"
#include "reconcile/walk.hpp"

namespace ff::test {
namespace {

constexpr Milliseconds kAcquireTime{5'000};

constexpr std::string_view kInsertMany = R"sql(
WITH core AS (
  INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, ownership_state,
                            eligibility_state, public_state, attempt_state, created_at_ms, policy, raw_fields)
  SELECT $1[1 + i % cardinality($1)], gen_random_uuid(), 'default', 'active', 'leased', 'not_applicable',
         'running', 'running_attempt', 1700000000000, $3::jsonb, $4::jsonb
    FROM generate_series(0, $2 - 1) i
  RETURNING partition_key, execution_id
)
INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, worker_id, worker_instance_id, lease_epoch,
                        lease_expires_at_ms, started_at_ms)
SELECT partition_key, execution_id, 0, $5, $5, 1,
       floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - $6 + row_number() OVER (), 1700000000000
  FROM core
)sql";

const reconcile::Reconciler& known(std::string_view name) {
  const reconcile::Reconciler* found = reconcile::find_reconciler(name);
  if (found == nullptr) throw std::invalid_argument("no reconciler " + std::string(name));
  return *found;
}

pg::ConnectOptions options_for(const pg::Connector& database, const EngineOptions& options) {
  pg::ConnectOptions connect = database.options();
  connect.statement_timeout = options.statement_timeout;
  return connect;
}

reconcile::Scope scope_of(const reconcile::Reconciler& reconciler, const EngineOptions& options) {
  reconcile::Scope scope{options.partitions,
                         options.filter,
                         options.batch_size,
                         settings_of(reconciler.name, options.settings),
                         {},
                         options.still_for};
  scope.family.delays_reclaims = options.delays_reclaims || !reconciler.wanted({});
  for (const auto& [name, replaced] : options.together_with)
    scope.family.enabled.emplace(name, settings_of(name, replaced));
  return scope;
}

Json events(pg::Connection& connection, std::string_view table) {
  Json all = Json::array();
  for (const pg::Row found :
       connection.execute("SELECT (to_jsonb(t) - 'event_id' - 'committed_at_ms')::text FROM " +
                          std::string(table) + " t ORDER BY event_id"))
    all.push_back(Json::parse(found.get<std::string>(0)));
  return all;
}

}  // namespace

const Partitions& sixteen_partitions() {
  static const Partitions all = partition_range({0}, {15});
  return all;
}

EngineFixture::EngineFixture(const Database& database, std::string_view reconciler,
                             const EngineOptions& options)
    : EngineFixture(database.connector(), known(reconciler), options) {}

EngineFixture::EngineFixture(const Database& database, const reconcile::Reconciler& reconciler,
                             const EngineOptions& options)
    : EngineFixture(database.connector(), reconciler, options) {}

EngineFixture::EngineFixture(const pg::Connector& database, std::string_view reconciler,
                             const EngineOptions& options)
    : EngineFixture(database, known(reconciler), options) {}

EngineFixture::EngineFixture(const pg::Connector& database, const reconcile::Reconciler& reconciler,
                             const EngineOptions& options)
    : connector_(options_for(database, options)),
      pool_(connector_, options.pool_size, kAcquireTime),
      fork_join_(options.spare_threads),
      engine_(reconciler, scope_of(reconciler, options), pool_,
              options.clock != nullptr ? *options.clock : clock_, fork_join_) {}

reconcile::TickOptions stepping_in(std::function<void()> step_in) {
  return {.may_write = [step_in, stepped_in = std::make_shared<bool>(false)] {
    if (!std::exchange(*stepped_in, true)) step_in();
    return true;
  }};
}

SteadyTime WatchingClock::now() const {
  watch_();
  return SteadyTime{} + std::chrono::hours{1000};
}

ScannerFilter for_namespace(const std::string& name_space) {
  ScannerFilter filter;
  filter.name_space = name_space;
  return filter;
}

ScannerFilter for_tag(const std::string& value) {
  ScannerFilter filter;
  filter.instance_tag = ScannerFilter::Tag{"cairn.instance_id", value};
  return filter;
}

ScannerFilter for_both(const std::string& name_space, const ScannerFilter::Tag& tag) {
  return {name_space, tag};
}

Settings settings_of(std::string_view reconciler, const Settings& replaced) {
  const reconcile::Reconciler* found = reconcile::find_reconciler(reconciler);
  Settings settings = found == nullptr ? Settings{} : reconcile::default_settings(*found);
  for (const auto& [name, value] : replaced) settings.insert_or_assign(name, value);
  return settings;
}

pg::Params leading_params(const reconcile::Reconciler& reconciler, const Partitions& partitions,
                          const ScannerFilter& filter, const Settings& settings,
                          const reconcile::Family& family, const std::optional<pg::Params>& told) {
  const Settings own = settings_of(reconciler.name, settings);
  const auto& tag = filter.instance_tag;
  pg::Params params =
      pg::Params::of(partitions, filter.name_space, tag ? std::optional(tag->key) : std::nullopt,
                     tag ? std::optional(tag->value) : std::nullopt);
  if (reconciler.walk) reconcile::Slice().add_to(params);
  reconcile::Family its = family;
  its.delays_reclaims = its.delays_reclaims || !reconciler.wanted(its);
  params.append(told ? *told : reconciler.parameters(own, its));
  return params.add(std::int64_t{reconciler.holdoff(own).count()});
}

std::optional<pg::Params> found_out(pg::Connection& connection, const reconcile::Reconciler& reconciler) {
  if (reconciler.prelude == nullptr) return std::nullopt;
  pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
  return reconciler.prelude()->ask({.transaction = transaction}).params;
}

std::vector<std::string> act_on(pg::Connection& connection, const reconcile::Reconciler& reconciler,
                                const std::vector<reconcile::RowKey>& rows, const ScannerFilter& filter) {
  const reconcile::Statements statements(reconciler);
  Partitions partitions;
  for (const reconcile::RowKey& row : rows) partitions.push_back(row.partition);
  pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
  const auto run = [&](const reconcile::Statement& statement, const std::vector<reconcile::RowKey>& its) {
    std::vector<reconcile::Candidate> keys;
    for (const reconcile::RowKey& row : its) keys.push_back({row, {}, true});
    pg::Params params = leading_params(reconciler, partitions, filter);
    reconcile::add_keys(params, reconciler, keys);
    return transaction.execute(statement.over(partitions), params);
  };
  std::vector<reconcile::RowKey> locked;
  if (statements.lock.empty())
    locked = rows;
  else
    for (const pg::Row row : run(statements.lock, rows))
      locked.push_back(reconcile::read_key(row, reconciler.key.size()));
  const pg::Result moved = run(statements.act, locked);
  transaction.commit();
  std::vector<std::string> words;
  for (const pg::Row found : reconcile::rows_of_batch({&moved, 1}, reconciler))
    words.push_back(found.get<std::string>("outcome"));
  return words;
}

reconcile::RowKey attempt_key(PartitionKey partition, const Uuid& execution, int attempt_index) {
  return {partition, {to_string(execution), std::to_string(attempt_index)}};
}

Uuid insert_lapsed(pg::Connection& connection, const CoreRow& core, AttemptRow attempt) {
  insert_core(connection, core);
  attempt.partition = core.partition;
  attempt.execution = core.execution;
  attempt.attempt_index = core.attempt_index;
  if (!attempt.lease_expires_at_ms) attempt.lease_expires_at_ms = now_ms(connection) - 1000;
  return insert_attempt(connection, attempt);
}

void insert_many_lapsed(pg::Connection& connection, const ManyLapsed& rows) {
  connection.execute(kInsertMany,
                     pg::Params::of(rows.partitions, rows.count,
                                    rows.policy.is_null() ? std::nullopt : std::optional(rows.policy.dump()),
                                    rows.raw_fields.dump(), rows.worker_id, rows.first_lapsed_ago_ms));
}

Json lease_events(pg::Connection& connection) {
  return events(connection, "ff_lease_event");
}

Json completion_events(pg::Connection& connection) {
  return events(connection, "ff_completion_event");
}

Json changed(Json row, const Json& columns) {
  row.update(columns);
  return row;
}

std::string outcomes(const reconcile::TickReport& report) {
  std::string text;
  for (const auto& [name, count] : report.outcomes)
    text += (text.empty() ? "" : " ") + name + "=" + std::to_string(count);
  return text;
}

std::int64_t number(pg::Connection& connection, const std::string& query, const pg::Params& params) {
  return connection.execute(query, params).one().get<std::int64_t>(0);
}

}  // namespace ff::test
