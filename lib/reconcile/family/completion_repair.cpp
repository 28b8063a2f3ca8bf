// completion_repair: an execution that ended without an event, while somebody waits for it, gets its event.
//
// Rows     ff_exec_core that has ended within max_age, without a completion event of its present life, found from those
//          who wait for it: members of its flow that are submitted, runnable or blocked, over an edge that is applied.
//          FlowFabric's cancels by a worker, by an operator, of a flow's header and of siblings write no event. Where
//          nobody waits, nobody misses it, and terminal_at_ms has no index. A downstream that an operator has
//          replayed since is left to him, unless it waits: it would be skipped again. A scan asks for those who wait in
//          one group of partitions only, because there may be a million of them.
// Changes  the event, dated with the end, by which `dependency` and FlowFabric's dispatch go on; in the core the mark
//          completion_repaired_for, by which nobody writes a second one, and `leased` to unowned. What would let the
//          execution end once more goes: every lease (one event `revoked` each), the current attempt's epoch, its
//          suspension and waitpoints. Where nothing tells how it ended, it is left alone (unclear).
// Others   Whoever ends, replays or repairs the same execution writes its core: what is held, or was written since this
//          statement began, waits for the next tick. A worker that comes back finds another epoch.
// Repeat   The mark is set and the event is there, so the row is not found again. The key has the end itself: of
//          another life nothing is written.

#include "reconcile/family/ending.hpp"
#include "reconcile/family/life.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::reconcile {
namespace {

// Each barrier has its row looked up by a key: from those who wait to the edges, from these to the upstreams.
constexpr std::string_view kScan = R"sql(
  SELECT DISTINCT d.partition_key, c.execution_id, c.terminal_at_ms, {not_later:c.terminal_at_ms} AS due_at_ms
    FROM (
    WITH RECURSIVE {lanes}
    SELECT lanes.partition_key, r.execution_id, r.flow_id, r.eligibility_state, r.raw_fields
      FROM lanes
     CROSS JOIN LATERAL (SELECT *
                           FROM {schema}.ff_exec_core r
                          WHERE {in_partitions:r} AND r.partition_key = lanes.partition_key
                            AND r.lane_id = ANY (lanes.lane_ids) AND {may_wait:r} AND r.flow_id IS NOT NULL
                         OFFSET 0) r
  ) d
   CROSS JOIN LATERAL (SELECT *
                         FROM {schema}.ff_edge i
                        WHERE {in_partitions:i} AND i.partition_key = d.partition_key AND i.flow_id = d.flow_id
                          AND i.downstream_eid = d.execution_id AND {is_applied:i}
                       OFFSET 0) g
    JOIN {core_by:g, upstream_eid} c ON true
   WHERE c.flow_id = g.flow_id AND {has_ended:c} AND {waits_for:d, c} AND {is_untold:c} AND {filter:c})sql";

constexpr std::string_view kAct = R"sql(
doomed AS MATERIALIZED (
  SELECT {doomed:c}, c.terminal_at_ms, {word_of_end:c} AS word
    FROM clock, key
    JOIN {schema}.ff_exec_core c ON c.partition_key = key.partition_key AND c.execution_id = key.execution_id
                                AND c.terminal_at_ms = key.terminal_at_ms
    {as_seen:c}
   WHERE {in_partitions:c} AND {has_ended:c} AND {is_untold:c} AND {filter:c}
     AND EXISTS (SELECT
                   FROM {schema}.ff_edge g
                   JOIN {core_by:g, downstream_eid} d ON true
                  WHERE {in_partitions:g} AND g.partition_key = c.partition_key AND g.flow_id = c.flow_id
                    AND g.upstream_eid = c.execution_id AND {is_applied:g}
                    AND d.flow_id = g.flow_id AND {may_wait:d} AND {waits_for:d, c}
                 OFFSET 0)
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
{hold_doomed},
repaired AS MATERIALIZED (SELECT * FROM endable WHERE word IS NOT NULL),
marked AS (
  UPDATE {schema}.ff_exec_core c
     SET ownership_state = CASE WHEN c.ownership_state = 'leased' THEN 'unowned' ELSE c.ownership_state END,
         raw_fields = {object:c.raw_fields} || jsonb_build_object('completion_repaired_for', c.terminal_at_ms)
    FROM repaired r
   WHERE {in_partitions:c} AND c.partition_key = r.partition_key AND c.execution_id = r.execution_id
),
lease AS (
  UPDATE {schema}.ff_attempt a
     SET outcome = coalesce(a.outcome, 'cancelled'), lease_expires_at_ms = NULL, lease_epoch = a.lease_epoch + 1
    FROM repaired r
   WHERE {in_partitions:a} AND a.partition_key = r.partition_key AND a.execution_id = r.execution_id
     AND a.lease_expires_at_ms IS NOT NULL
  RETURNING r.partition_key, r.execution_id, r.now_ms, r.name_space, r.instance_tag
),
-- A worker's complete asks for the epoch only, and a wait for children leaves it.
fenced AS (
  UPDATE {schema}.ff_attempt a
     SET lease_epoch = a.lease_epoch + 1
    FROM repaired r
   WHERE {in_partitions:a} AND a.partition_key = r.partition_key AND a.execution_id = r.execution_id
     AND a.attempt_index = r.attempt_index AND a.lease_expires_at_ms IS NULL
),
suspension_cleared AS (
  DELETE FROM {schema}.ff_suspension_current s
   USING repaired r
   WHERE {in_partitions:s} AND s.partition_key = r.partition_key AND s.execution_id = r.execution_id
),
waitpoint_cleared AS (
  DELETE FROM {schema}.ff_waitpoint_pending w
   USING repaired r
   WHERE {in_partitions:w} AND w.partition_key = r.partition_key AND w.execution_id = r.execution_id
),
lease_event AS (
  {lease_events:'revoked', lease}
),
completion_event AS (
  {completion_events:word, (SELECT partition_key, execution_id, flow_id, word, name_space, instance_tag,
                 terminal_at_ms AS now_ms
            FROM repaired) dated}
),
moved AS (
  SELECT partition_key, execution_id, terminal_at_ms, terminal_at_ms AS due_at_ms, 'repaired' AS outcome FROM repaired
   UNION ALL
  SELECT partition_key, execution_id, terminal_at_ms, terminal_at_ms, 'unclear' FROM doomed WHERE word IS NULL
))sql";

std::vector<Fragment> fragments() {
  return {{"may_wait(core)", "{core}.lifecycle_phase IN ('submitted', 'runnable', 'blocked')"},
          // One that is only staged is in no group's counts, but FlowFabric's dispatch would count it.
          {"is_applied(edge)", "{edge}.policy->>'edge_state' IS DISTINCT FROM 'pending'"},
          {"is_untold(core)",
           R"sql({core}.terminal_at_ms >= (SELECT now_ms FROM clock) - {max_age}
     AND {core}.raw_fields->'completion_repaired_for' IS DISTINCT FROM to_jsonb({core}.terminal_at_ms)
     AND {told_end:{core}} IS NULL)sql"},
          {"waits_for(downstream, upstream)",
           R"sql(({downstream}.eligibility_state = 'blocked_by_dependencies'
          OR {downstream}.raw_fields->>'replay_count' IS NULL
          OR {replayed_at:{downstream}} <= {upstream}.terminal_at_ms))sql"}};
}

}  // namespace

Reconciler completion_repair() {
  using namespace std::chrono_literals;
  return {
      .name = "completion_repair",
      .summary = "Writes the completion event that an ended execution lacks while somebody waits for it.",
      .outcomes = {"repaired", "unclear"},
      .left_alone = {"unclear"},
      .key = {{"execution_id", "uuid"}, {"terminal_at_ms", "bigint"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      .fragments = fragments(),
      .privileges = ending::privileges(life::privileges({{"ff_edge", "SELECT"}})),
      .interval = 5s,
      .settings = {{.name = "max_age",
                    .kind = SettingDecl::Kind::duration,
                    .fallback = Milliseconds{24h}.count(),
                    .least = Milliseconds{1min}.count(),
                    .most = Milliseconds{24h * 3650}.count(),
                    .summary = "how long ago the end may be; less than outbox_retention keeps events"}},
      .groups_a_scan = 1,
      .holdoff = [](const Settings&) { return Milliseconds{0}; },
      .own_parameters = {"max_age"},
      .parameters = [](const Settings& own, const Family&) { return pg::Params::of(*own.at("max_age")); }};
}

}  // namespace ff::reconcile
