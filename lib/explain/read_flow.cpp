#include "explain/read_flow.hpp"

#include "reconcile/phrases.hpp"

namespace ff::explain {
namespace {

// In all of them: $1 the partition, $2 the execution, $3 its flow.

// "It waits for all of those that it waits for", by its flow's edges.
constexpr std::string_view kWaitsForAll = R"sql(EXISTS (
  SELECT
    FROM {schema}.ff_exec_core c
    JOIN {schema}.ff_edge_group g ON g.partition_key = $1 AND g.flow_id = $3 AND g.downstream_eid = c.execution_id
   WHERE c.partition_key = $1 AND c.execution_id = {execution} AND c.flow_id = $3
     AND CASE WHEN c.eligibility_state = 'blocked_by_dependencies' AND c.blocking_reason = 'waiting_for_children'
              THEN c.lifecycle_phase IN ('submitted', 'runnable', 'blocked')
              WHEN {kind_of:g} <> 'all_of' THEN false
              WHEN c.lifecycle_phase = 'submitted' THEN g.running_count > 0
              ELSE c.lifecycle_phase = 'blocked'
                   OR c.lifecycle_phase = 'runnable' AND c.eligibility_state = 'blocked_by_dependencies' END))sql";

const std::string kFanIn = of_one_partition(R"sql(
SELECT coalesce(g.policy->>'kind', 'all_of') AS kind, {whole_number_or:1, g.policy->'k'} AS k,
       g.success_count::bigint AS success, g.fail_count::bigint AS fail, g.skip_count::bigint AS skip,
       g.running_count::bigint AS running, g.cancel_siblings_pending_flag AS flag, p.enqueued_at_ms
  FROM {schema}.ff_edge_group g
  LEFT JOIN {schema}.ff_pending_cancel_groups p ON p.partition_key = g.partition_key AND p.flow_id = g.flow_id
                                      AND p.downstream_eid = g.downstream_eid
 WHERE g.partition_key = $1 AND g.flow_id = $3 AND g.downstream_eid = $2)sql");

// Other policies than cancel_all let members finish, and a replay is somebody's will.
const std::string kCancelled = of_one_partition(R"sql(
SELECT
  FROM {schema}.ff_flow_core f
  JOIN {schema}.ff_exec_core c ON c.partition_key = f.partition_key AND c.flow_id = f.flow_id
 WHERE f.partition_key = $1 AND f.flow_id = $3 AND c.execution_id = $2 AND f.public_flow_state = 'cancelled'
   AND coalesce({object:f.raw_fields}->>'cancellation_policy', 'cancel_all') = 'cancel_all'
   AND NOT {object:c.raw_fields} ? 'replay_count')sql");

// First those whose end nobody has passed on, then those that are at work.
const std::string kUpstreams = of_one_partition(R"sql(
SELECT up.*, count(*) OVER () AS in_all,
       count(*) FILTER (WHERE ended AND NOT staged) OVER () AS ended_in_all,
       count(*) FILTER (WHERE ended AND NOT staged AND outcome = 'success') OVER () AS succeeded_in_all,
       count(*) FILTER (WHERE ended AND NOT staged AND outcome = 'skipped') OVER () AS skipped_in_all,
       count(*) FILTER (WHERE ended AND NOT staged AND outcome IS NULL) OVER () AS untold_in_all,
       bool_or(staged) OVER () AS any_staged
  FROM (SELECT d.edge_id, d.upstream_eid, coalesce(u.lifecycle_phase, '') AS lifecycle_phase,
               coalesce(u.public_state, '') AS public_state,
               coalesce(d.policy->>'edge_state', '') = 'pending' AS staged,
               coalesce(u.lifecycle_phase IN ('terminal', 'cancelled'), false) AS ended,
               coalesce(u.attempt_state, '') AS attempt_state, e.events, e.outcome, e.undispatched_since_ms,
               u.terminal_at_ms,
               CASE WHEN {has_ended:u} AND e.events = 0 THEN {word_of_end:u} END AS word_of_end
          FROM {schema}.ff_edge d
          LEFT JOIN {schema}.ff_exec_core u ON u.partition_key = $1 AND u.execution_id = d.upstream_eid
         CROSS JOIN LATERAL (SELECT count(*) AS events,
                                    (array_agg(c.outcome ORDER BY c.event_id DESC))[1] AS outcome,
                                    min(c.committed_at_ms) FILTER (WHERE c.dispatched_at_ms IS NULL)
                                      AS undispatched_since_ms
                               FROM {schema}.ff_completion_event c
                              WHERE c.partition_key = $1 AND c.execution_id = d.upstream_eid
                                AND c.outcome <> 'resumable') e
         WHERE d.partition_key = $1 AND d.flow_id = $3 AND d.downstream_eid = $2) up
 ORDER BY undispatched_since_ms IS NULL, NOT (ended AND events = 0), ended, upstream_eid, edge_id
 LIMIT 50)sql");

// Step by step to the first upstream that waits for all of its own, as `waits_in_circle` of `audit` has it: to the execution
// itself where that is one of them. What satisfies a fan-in alone may yet end another wait. So many edges of a fan-in are looked
// at, and so many steps are made.
const std::string kWay = of_one_partition(R"sql(
WITH RECURSIVE way AS (
  SELECT 0 AS step, NULL::uuid AS downstream_eid, $2::uuid AS upstream_eid, NULL::uuid AS edge_id
   UNION ALL
  SELECT w.step + 1, n.downstream_eid, n.upstream_eid, n.edge_id
    FROM way w
   CROSS JOIN LATERAL (SELECT d.downstream_eid, d.upstream_eid, d.edge_id
                         FROM (SELECT i.*
                                 FROM {schema}.ff_edge i
                                WHERE i.partition_key = $1 AND i.flow_id = $3 AND i.downstream_eid = w.upstream_eid
                                  AND i.upstream_eid <> i.downstream_eid AND {is_applied:i}
                                ORDER BY i.upstream_eid <> $2::uuid, i.upstream_eid
                                LIMIT 100) d
                        WHERE {waits_for_all:d.upstream_eid} AND (w.step > 0 OR {waits_for_all:d.downstream_eid})
                        ORDER BY d.upstream_eid <> $2::uuid, d.upstream_eid
                        LIMIT 1) n
   WHERE w.step < 12 AND (w.step = 0 OR w.upstream_eid <> $2::uuid)
)
SELECT downstream_eid, upstream_eid, edge_id FROM way WHERE step > 0 ORDER BY step)sql");

constexpr std::string_view kDownstreams = R"sql(
SELECT d.downstream_eid, coalesce(c.lifecycle_phase, '') AS lifecycle_phase,
       coalesce(c.public_state, '') AS public_state,
       coalesce(g.cancel_siblings_pending_flag AND $2::text = ANY(g.cancel_siblings_pending_members), false)
         AS cancels_us,
       p.downstream_eid IS NOT NULL AS enqueued,
       count(*) OVER () AS in_all
  FROM {schema}.ff_edge d
  LEFT JOIN {schema}.ff_exec_core c ON c.partition_key = $1 AND c.execution_id = d.downstream_eid
  LEFT JOIN {schema}.ff_edge_group g ON g.partition_key = $1 AND g.flow_id = $3 AND g.downstream_eid = d.downstream_eid
  LEFT JOIN {schema}.ff_pending_cancel_groups p ON p.partition_key = $1 AND p.flow_id = $3
                                      AND p.downstream_eid = d.downstream_eid
 WHERE d.partition_key = $1 AND d.flow_id = $3 AND d.upstream_eid = $2
 ORDER BY cancels_us DESC, d.downstream_eid, d.edge_id
 LIMIT 50)sql";

}  // namespace

std::string of_one_partition(std::string_view text) {
  Fragments all = reconcile::phrases();
  all.add(Fragment{"waits_for_all(execution)", std::string(kWaitsForAll)});
  return all.add(Fragment{"in_partitions(row)", "{row}.partition_key = $1"}).expand(text);
}

UnixMillis moment_of(const pg::Row& row, std::string_view column) {
  return unix_millis(row.get<std::int64_t>(column));
}

std::optional<UnixMillis> moment_if(const pg::Row& row, std::string_view column) {
  const auto ms = row.get<std::optional<std::int64_t>>(column);
  return ms ? std::optional(unix_millis(*ms)) : std::nullopt;
}

void read_flow(pg::Transaction& transaction, Facts& facts) {
  if (!facts.core->flow) return;
  const PartitionKey partition = facts.id.partition;
  const pg::Params of_it = pg::Params::of(partition, facts.id.uuid, *facts.core->flow);
  facts.flow_cancelled = !transaction.execute(kCancelled, of_it).empty();
  for (const pg::Row row : transaction.execute(kFanIn, of_it))
    facts.fan_in = FanIn{
        row.get<std::string>("kind"),  row.get<std::int64_t>("k"),      row.get<std::int64_t>("success"),
        row.get<std::int64_t>("fail"), row.get<std::int64_t>("skip"),   row.get<std::int64_t>("running"),
        row.get<bool>("flag"),         moment_if(row, "enqueued_at_ms")};
  for (const pg::Row row : transaction.execute(kUpstreams, of_it)) {
    facts.upstreams_in_all = row.get<std::int64_t>("in_all");
    facts.ended_upstreams = row.get<std::int64_t>("ended_in_all");
    facts.succeeded_upstreams = row.get<std::int64_t>("succeeded_in_all");
    facts.skipped_upstreams = row.get<std::int64_t>("skipped_in_all");
    facts.untold_upstreams = row.get<std::int64_t>("untold_in_all");
    facts.any_staged = row.get<bool>("any_staged");
    facts.upstreams.push_back({{partition, row.get<Uuid>("upstream_eid")},
                               row.get<std::string>("lifecycle_phase"),
                               row.get<std::string>("public_state"),
                               row.get<bool>("staged"),
                               row.get<std::int64_t>("events"),
                               row.get<std::optional<std::string>>("outcome"),
                               moment_if(row, "undispatched_since_ms"),
                               moment_if(row, "terminal_at_ms"),
                               row.get<Uuid>("edge_id"),
                               row.get<std::string>("attempt_state"),
                               row.get<std::optional<std::string>>("word_of_end")});
  }
  if (facts.upstreams_in_all > facts.ended_upstreams)
    for (const pg::Row row : transaction.execute(kWay, of_it))
      facts.way.push_back({{partition, row.get<Uuid>("downstream_eid")},
                           {partition, row.get<Uuid>("upstream_eid")},
                           row.get<Uuid>("edge_id")});
  for (const pg::Row row : transaction.execute(kDownstreams, of_it)) {
    facts.downstreams_in_all = row.get<std::int64_t>("in_all");
    facts.downstreams.push_back({{partition, row.get<Uuid>("downstream_eid")},
                                 row.get<std::string>("lifecycle_phase"),
                                 row.get<std::string>("public_state"),
                                 row.get<bool>("cancels_us"),
                                 row.get<bool>("enqueued")});
  }
}

}  // namespace ff::explain
