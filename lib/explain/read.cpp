#include "explain/read.hpp"

#include <algorithm>

#include "explain/read_flow.hpp"
#include "pg/server.hpp"
#include "pg/sqlstate.hpp"
#include "pg/transaction.hpp"
#include "reconcile/engine.hpp"
#include "reconcile/phrases.hpp"

namespace ff::explain {
namespace {

// In all of them: $1 the partition, $2 the execution.

const std::string kCore = of_one_partition(R"sql(
SELECT flow_id, lane_id, array_to_string(required_capabilities, ',') AS capabilities, attempt_index, lifecycle_phase,
       ownership_state, eligibility_state, public_state, attempt_state, blocking_reason, cancellation_reason,
       cancelled_by, created_at_ms, started_at_ms, terminal_at_ms, deadline_at_ms,
       raw_fields->>'namespace' AS namespace, left(raw_fields->>'last_failure_message', 200) AS last_failure,
       {whole_number:policy->'retry_policy'->'max_retries'} AS max_retries,
       {moment:raw_fields->>'delay_until'} AS delay_until_ms,
       {moment:raw_fields->>'last_mutation_at'} AS last_mutation_at_ms,
       (SELECT i.outcome
          FROM {schema}.ff_attempt i
         WHERE i.partition_key = $1 AND i.execution_id = $2
         ORDER BY i.attempt_index DESC
         LIMIT 1) AS newest_outcome,
       coalesce({object:raw_fields} ? 'replay_count', false) AS is_replayed,
       CASE WHEN {has_ended:c} AND public_state = 'resumable' THEN {word_of_end:c} END AS word_of_end
  FROM {schema}.ff_exec_core c
 WHERE partition_key = $1 AND execution_id = $2)sql");

constexpr std::string_view kElsewhere = R"sql(
SELECT c.partition_key
  FROM unnest($1) AS p(partition_key)
  JOIN {schema}.ff_exec_core c ON c.partition_key = p.partition_key AND c.execution_id = $2
 LIMIT 1)sql";

const std::string kAttempts = reconcile::phrases().expand(R"sql(
SELECT a.attempt_index, coalesce(a.worker_instance_id, a.worker_id) AS worker, a.lease_epoch, a.lease_expires_at_ms,
       a.started_at_ms, a.terminal_at_ms, a.outcome,
       {reclaims_of_run:a, c} AS reclaims
  FROM {schema}.ff_attempt a
  LEFT JOIN {schema}.ff_exec_core c ON c.partition_key = $1 AND c.execution_id = $2
 WHERE a.partition_key = $1 AND a.execution_id = $2
 ORDER BY a.lease_expires_at_ms IS NULL, a.attempt_index DESC
 LIMIT 20)sql");

constexpr std::string_view kGrants = R"sql(
SELECT kind, worker_instance_id AS worker, expires_at_ms
  FROM {schema}.ff_claim_grant
 WHERE partition_key = $1 AND execution_id = $2
 ORDER BY expires_at_ms DESC
 LIMIT 20)sql";

constexpr std::string_view kSuspension = R"sql(
SELECT suspended_at_ms, timeout_at_ms, coalesce(timeout_behavior, 'fail') AS behavior, reason_code,
       condition::text AS condition, member_map::text AS signals
  FROM {schema}.ff_suspension_current
 WHERE partition_key = $1 AND execution_id = $2)sql";

constexpr std::string_view kWaitpoints = R"sql(
SELECT w.waitpoint_id::text AS id, w.waitpoint_key AS key, w.state,
       array_to_string(w.required_signal_names, ',') AS signals, w.expires_at_ms, w.activated_at_ms,
       count(*) OVER () AS in_all
  FROM {schema}.ff_waitpoint_pending w
  LEFT JOIN {schema}.ff_suspension_current s ON s.partition_key = $1 AND s.execution_id = $2
 WHERE w.partition_key = $1 AND w.execution_id = $2
 ORDER BY (w.state = 'active' AND coalesce(w.activated_at_ms, s.suspended_at_ms) = s.suspended_at_ms) IS TRUE DESC,
          w.created_at_ms, w.waitpoint_id
 LIMIT 50)sql";

constexpr std::string_view kCompletions = R"sql(
SELECT event_id, outcome, committed_at_ms, dispatched_at_ms
  FROM {schema}.ff_completion_event
 WHERE partition_key = $1 AND execution_id = $2
 ORDER BY event_id DESC
 LIMIT 5)sql";

// No index finds them by the execution: those of its partition are read from the newest on, so many at most.
constexpr std::string_view kLeaseEvents = R"sql(
SELECT event_type, occurred_at_ms
  FROM (SELECT event_id, execution_id, event_type, occurred_at_ms
          FROM {schema}.ff_lease_event
         WHERE partition_key = $1::integer
         ORDER BY event_id DESC
         LIMIT 10000) newest
 WHERE execution_id = $2::text
 ORDER BY event_id DESC
 LIMIT 5)sql";

// $1: the execution's namespace, $2: its lane, $3: the capabilities that it wants, separated by commas
constexpr std::string_view kWorkers = R"sql(
SELECT count(*) AS alive, count(*) FILTER (WHERE for_lane) AS for_lane,
       count(*) FILTER (WHERE for_lane AND wanted <@ capabilities) AS capable
  FROM (SELECT $2 = ANY(lanes) AS for_lane, string_to_array(capabilities_csv, ',') AS capabilities,
               string_to_array($3, ',') AS wanted
          FROM {schema}.ff_worker_registry
         WHERE ($1 IS NULL OR namespace = $1)
           AND last_heartbeat_ms::numeric + liveness_ttl_ms
               >= floor(extract(epoch FROM clock_timestamp()) * 1000)) worker)sql";

// $1 the partition, $2 the lane
constexpr std::string_view kFirstOfLane = R"sql(
SELECT c.execution_id, array_to_string(c.required_capabilities, ',') AS capabilities,
       (SELECT count(*)
          FROM {schema}.ff_worker_registry w
         WHERE $2 = ANY (w.lanes) AND c.required_capabilities <@ string_to_array(w.capabilities_csv, ',')
           AND w.last_heartbeat_ms::numeric + w.liveness_ttl_ms
               >= floor(extract(epoch FROM clock_timestamp()) * 1000)) AS capable
  FROM (SELECT i.execution_id, i.required_capabilities
          FROM {schema}.ff_exec_core i
         WHERE i.partition_key = $1 AND i.lane_id = $2 AND i.lifecycle_phase = 'runnable'
           AND i.eligibility_state = 'eligible_now'
         ORDER BY i.priority DESC, i.created_at_ms
         LIMIT 1) c)sql";

std::optional<Core> read_core(pg::Transaction& transaction, const pg::Params& of_it) {
  const pg::Result rows = transaction.execute(kCore, of_it);
  if (rows.empty()) return std::nullopt;
  const pg::Row row = rows.one();
  Core core;
  core.flow = row.get<std::optional<Uuid>>("flow_id");
  core.lane = row.get<std::string>("lane_id");
  core.capabilities = row.get<std::string>("capabilities");
  core.attempt_index = row.get<std::int32_t>("attempt_index");
  core.lifecycle_phase = row.get<std::string>("lifecycle_phase");
  core.ownership_state = row.get<std::string>("ownership_state");
  core.eligibility_state = row.get<std::string>("eligibility_state");
  core.public_state = row.get<std::string>("public_state");
  core.attempt_state = row.get<std::string>("attempt_state");
  core.blocking_reason = row.get<std::optional<std::string>>("blocking_reason");
  core.cancellation_reason = row.get<std::optional<std::string>>("cancellation_reason");
  core.cancelled_by = row.get<std::optional<std::string>>("cancelled_by");
  core.created_at = moment_of(row, "created_at_ms");
  core.started_at = moment_if(row, "started_at_ms");
  core.terminal_at = moment_if(row, "terminal_at_ms");
  core.deadline_at = moment_if(row, "deadline_at_ms");
  core.max_retries = row.get<std::int64_t>("max_retries");
  core.name_space = row.get<std::optional<std::string>>("namespace");
  core.delay_until = moment_if(row, "delay_until_ms");
  core.last_mutation_at = moment_if(row, "last_mutation_at_ms");
  core.last_failure = row.get<std::optional<std::string>>("last_failure");
  core.newest_outcome = row.get<std::optional<std::string>>("newest_outcome");
  core.is_replayed = row.get<bool>("is_replayed");
  core.word_of_end = row.get<std::optional<std::string>>("word_of_end");
  return core;
}

void read_attempts(pg::Transaction& transaction, const pg::Params& of_it, Facts& facts) {
  for (const pg::Row row : transaction.execute(kAttempts, of_it))
    facts.attempts.push_back(
        {row.get<std::int32_t>("attempt_index"), row.get<std::optional<std::string>>("worker"),
         row.get<std::int64_t>("lease_epoch"), moment_if(row, "lease_expires_at_ms"),
         moment_if(row, "started_at_ms"), moment_if(row, "terminal_at_ms"),
         row.get<std::optional<std::string>>("outcome"), row.get<std::int64_t>("reclaims")});
  for (const pg::Row row : transaction.execute(kGrants, of_it))
    facts.grants.push_back(
        {row.get<std::string>("kind"), row.get<std::string>("worker"), moment_of(row, "expires_at_ms")});
}

void read_suspension(pg::Transaction& transaction, const pg::Params& of_it, Facts& facts) {
  for (const pg::Row row : transaction.execute(kSuspension, of_it))
    facts.suspension =
        Suspension{moment_of(row, "suspended_at_ms"), moment_if(row, "timeout_at_ms"),
                   row.get<std::string>("behavior"),  row.get<std::optional<std::string>>("reason_code"),
                   row.get<std::string>("condition"), row.get<std::string>("signals")};
  for (const pg::Row row : transaction.execute(kWaitpoints, of_it)) {
    facts.waitpoints_in_all = row.get<std::int64_t>("in_all");
    facts.waitpoints.push_back({row.get<std::string>("id"), row.get<std::string>("key"),
                                row.get<std::string>("state"), row.get<std::string>("signals"),
                                moment_if(row, "expires_at_ms"), moment_if(row, "activated_at_ms")});
  }
}

void read_events(pg::Transaction& transaction, const pg::Params& of_it, Facts& facts) {
  for (const pg::Row row : transaction.execute(kCompletions, of_it))
    facts.completions.push_back({row.get<std::int64_t>("event_id"), row.get<std::string>("outcome"),
                                 moment_of(row, "committed_at_ms"), moment_if(row, "dispatched_at_ms")});
  for (const pg::Row row : transaction.execute(kLeaseEvents, of_it))
    facts.lease_events.push_back({row.get<std::string>("event_type"), moment_of(row, "occurred_at_ms")});
}

void read_workers(pg::Transaction& transaction, Facts& facts) {
  const Core& core = *facts.core;
  const pg::Result rows =
      transaction.execute(kWorkers, pg::Params::of(core.name_space, core.lane, core.capabilities));
  const pg::Row row = rows.one();
  facts.workers = {row.get<std::int64_t>("alive"), row.get<std::int64_t>("for_lane"),
                   row.get<std::int64_t>("capable")};
  if (!core.is("runnable") || core.eligibility_state != "eligible_now") return;
  for (const pg::Row first : transaction.execute(kFirstOfLane, pg::Params::of(facts.id.partition, core.lane)))
    facts.first = First{{facts.id.partition, first.get<Uuid>("execution_id")},
                        first.get<std::string>("capabilities"),
                        first.get<std::int64_t>("capable")};
}

std::string said_by(const pg::Error& error) {
  const std::string text = error.what();
  const bool names_it = text.find("SQLSTATE " + error.sqlstate()) != std::string::npos;
  return error.sqlstate().empty() || names_it
             ? text
             : "SQLSTATE " + pg::named_sqlstate(error.sqlstate()) + ": " + text;
}

Trial trial_of(const Member& member, const reconcile::TickReport& report) {
  Trial trial;
  trial.still_for = member.scope.still_for.value_or(member.reconciler->still_for);
  for (const auto& [outcome, count] : report.outcomes) trial.outcomes.push_back(outcome);
  trial.locked =
      report.skipped.contains(reconcile::Skip::locked) || report.outcomes.contains("skipped_locked");
  trial.left_alone =
      !trial.outcomes.empty() && std::ranges::all_of(trial.outcomes, [&](const std::string& name) {
        const reconcile::Outcome* const outcome = reconcile::outcome_of(*member.reconciler, name);
        return outcome != nullptr && outcome->effect == reconcile::Effect::left_alone;
      });
  if (report.failure) trial.error = said_by(*report.failure);
  if (!report.faults.empty()) trial.error = said_by(report.faults.front().error);
  return trial;
}

Trial tried(const Member& member, const ExecutionId& id, pg::Pool& pool) {
  reconcile::Engine engine(*member.reconciler, member.scope, pool);
  return trial_of(member, engine.tick_one(id, {.dry_run = true, .list_moves = true}));
}

// The end of it is all that can be in the way of who waits for it, and explains itself no better there.
void try_upstream(Facts& facts, pg::Pool& pool, const std::vector<Member>& family) {
  const auto its = std::ranges::find_if(
      family, [](const Member& member) { return member.reconciler->name == "dependency"; });
  const Upstream* const first = facts.undispatched();
  if (first == nullptr || its == family.end() || !its->enabled || !its->scope.filter.matches_everything())
    return;
  facts.upstreams[static_cast<std::size_t>(first - facts.upstreams.data())].passing_on =
      tried(*its, first->id, pool);
}

}  // namespace

Reader::Reader(const std::vector<Member>& family, Partitions all) : all_(std::move(all)) {
  for (const Member& member : family) {
    const auto& its = member.reconciler->privileges;
    readable_.insert(readable_.end(), its.begin(), its.end());
    if (member.reconciler->execution_column.empty()) continue;
    views_.push_back({member, reconcile::NamedRows(*member.reconciler, member.scope), std::nullopt});
    if (member.scope.filter.matches_everything()) continue;
    reconcile::Scope unfiltered = member.scope;
    unfiltered.filter = {};
    views_.back().unfiltered.emplace(*member.reconciler, unfiltered);
  }
}

// Only rows that are there without the filter, and not with it, are known to be left out by it.
Inspection Reader::inspect(pg::Transaction& transaction, View& view, const ExecutionId& id) {
  const auto& [reconciler, enabled, scope] = view.member;
  Inspection inspection{.reconciler = reconciler->name,
                        .takes_leases = reconciler->takes_leases,
                        .is_dated = reconciler->is_dated,
                        .leaves_promised = reconciler->leaves_promised,
                        .no_rows = reconciler->no_rows,
                        .enabled = enabled,
                        .filter = scope.filter,
                        .settings = scope.settings,
                        .rows = {},
                        .trial = {}};
  const auto add = [&](reconcile::NamedRows& rows) {
    for (const auto& row : rows.of(transaction, id)) inspection.rows.push_back({row.takeable_at, row.due});
  };
  add(view.its);
  if (inspection.rows.empty() && view.unfiltered) {
    add(*view.unfiltered);
    inspection.filtered = !inspection.rows.empty();
  }
  return inspection;
}

Facts Reader::read(pg::Connection& connection, const ExecutionId& id) {
  Facts facts;
  facts.id = id;
  pg::Transaction transaction(connection, {.isolation = pg::Isolation::snapshot});
  const pg::Params of_it = pg::Params::of(id.partition, id.uuid);
  facts.now = pg::server_info(connection).now;
  facts.core = read_core(transaction, of_it);
  read_attempts(transaction, of_it, facts);
  read_suspension(transaction, of_it, facts);
  read_events(transaction, of_it, facts);
  if (facts.core) {
    read_flow(transaction, facts);
    read_workers(transaction, facts);
  } else {
    for (const pg::Row row : transaction.execute(kElsewhere, pg::Params::of(all_, id.uuid)))
      facts.elsewhere = row.get<PartitionKey>(0);
  }
  for (View& view : views_) facts.inspections.push_back(inspect(transaction, view, id));
  facts.holders = reconcile::holders_of(transaction, id, readable_);
  transaction.rollback();
  return facts;
}

void try_due(Facts& facts, pg::Pool& pool, const std::vector<Member>& family) {
  try_upstream(facts, pool, family);
  if (!facts.holders.empty() || !facts.core || facts.grant("reclaim") != nullptr) return;
  for (Inspection& inspection : facts.inspections) {
    if (!inspection.due() || inspection.filtered) continue;
    for (const Member& member : family) {
      if (member.reconciler->name != inspection.reconciler) continue;
      inspection.trial = tried(member, facts.id, pool);
    }
  }
}

}  // namespace ff::explain
