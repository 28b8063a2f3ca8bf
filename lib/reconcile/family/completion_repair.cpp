// completion_repair: an execution that ended without an event, while somebody waits for it, gets its event.
//
// Rows     ff_exec_core that has ended within max_age, without a completion event of its present run, found from those
//          who wait for it: members of its flow that are submitted, runnable or blocked, over an edge that is applied.
//          FlowFabric's cancels by a worker, by an operator, of a flow's header and of siblings write no event. Where
//          nobody waits, nobody misses it, and terminal_at_ms has no index. A downstream that an operator has
//          replayed since is left to him, unless it waits: it would be skipped again. The end of who was replayed is
//          missed only where the fan-in counts more as running than there are: that of a run before may be in it. There
//          may be a million who wait: they are walked through, and a companion takes those that the newest lease events
//          name, a few seconds after a cancel that writes one or once the lease that it kept has run out.
// Changes  the event, dated with the end, by which `dependency` and FlowFabric's dispatch go on; in the core the mark
//          completion_repaired_for, by which nobody writes a second one, and `leased` to unowned. What would let the
//          execution end once more goes: every lease (one event `revoked` each), the current attempt's epoch, its
//          suspension and waitpoints. Where nothing tells how it ended, it is left alone (unclear). A member
//          whose worker may finish, as the policy of its flow's cancel says, is left to it while its lease holds.
// Others   Whoever ends, replays or repairs the same execution writes its core: what is held, or was written since this
//          statement began, waits for the next tick. A worker that comes back finds another epoch.
// Repeat   The mark is set and the event is there, so the row is not found again. The key has the end itself: of
//          another run nothing is written.

#include "reconcile/family/ending.hpp"
#include "reconcile/family/let_finish.hpp"
#include "reconcile/family/registry.hpp"
#include "reconcile/family/replay.hpp"
#include "reconcile/family/shortcut.hpp"
#include "reconcile/with.hpp"

namespace ff::reconcile {
namespace {

// Those who wait are taken together flow by flow: each lookup costs more than what it finds, and without statistics the
// planner may read all edges of a flow for it. The barriers have each row looked up by its key, and nothing but the key in
// them: with the phase in it, the planner might read all that has ended for each upstream. Only of one that has ended is
// anything else asked.
constexpr std::string_view kScan = R"sql(
  SELECT w.partition_key, c.execution_id, c.terminal_at_ms, {not_later:c.terminal_at_ms} AS due_at_ms
    FROM (
    WITH RECURSIVE {lanes}
    SELECT lanes.partition_key, f.flow_id, f.members
      FROM lanes
     CROSS JOIN LATERAL (
       SELECT m.flow_id, array_agg(m.execution_id) AS members
         FROM (SELECT r.flow_id, r.execution_id
                 FROM {schema}.ff_exec_core r
                WHERE {in_partitions:r} AND r.partition_key = lanes.partition_key
                  AND r.lane_id = ANY (lanes.lane_ids) AND {may_wait:r}
               OFFSET 0) m
        WHERE m.flow_id IS NOT NULL
        GROUP BY m.flow_id
       OFFSET 0) f
  ) w
   CROSS JOIN LATERAL (SELECT DISTINCT i.upstream_eid
                         FROM {schema}.ff_edge i
                        WHERE {in_partitions:i} AND i.partition_key = w.partition_key AND i.flow_id = w.flow_id
                          AND i.downstream_eid = ANY (w.members) AND {is_applied:i}
                       OFFSET 0) g
   CROSS JOIN LATERAL (SELECT *
                         FROM {schema}.ff_exec_core e
                        WHERE {in_partitions:e} AND e.partition_key = w.partition_key
                          AND e.execution_id = g.upstream_eid
                       OFFSET 0) c
   WHERE c.flow_id = w.flow_id AND {is_marked_by_nobody:c} AND {filter:c} AND {is_untold:c} AND {is_waited_for:c}
     AND NOT {is_still_at_work:c})sql";

// The same from the other end, for the executions that the newest lease events name.
constexpr std::string_view kAnnouncedScan = R"sql(
  SELECT c.partition_key, c.execution_id, c.terminal_at_ms, {not_later:c.terminal_at_ms} AS due_at_ms
    FROM {lately_released} l
    JOIN {core_of:l} c ON true
   WHERE {is_marked_by_nobody:c} AND {filter:c} AND {is_untold:c} AND {is_waited_for:c}
     AND NOT {is_still_at_work:c})sql";

constexpr std::string_view kAct = R"sql(
doomed AS MATERIALIZED (
  -- Whether it is missed is not asked beside the key: so dear a question hides what a look by another index costs.
  SELECT {doomed:c}, c.terminal_at_ms, {word_of_end:c} AS word, {is_waited_for:c} AS is_missed,
         {may_finish:c} AS may_finish
    FROM clock, key
    JOIN {schema}.ff_exec_core c ON {same_execution:c, key}
                                AND c.terminal_at_ms = key.terminal_at_ms
    {as_seen:c}
   WHERE {in_partitions:c} AND {is_marked_by_nobody:c} AND {filter:c} AND {is_untold:c} AND NOT {is_still_at_work:c}
     AND {in_sight:ff_attempt, ff_completion_event, ff_edge} AND {backlog_in_sight}
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
{hold_doomed},
-- A lease as it is under the lock: its worker may have renewed it meanwhile.
repaired AS MATERIALIZED (
  SELECT e.*
    FROM endable e
   WHERE e.is_missed AND e.word IS NOT NULL
     AND NOT (e.may_finish AND (e.partition_key, e.execution_id) IN (
                SELECT a.partition_key, a.execution_id FROM doomed_attempt a WHERE a.lease_expires_at_ms >= a.now_ms))
),
marked AS (
  UPDATE {schema}.ff_exec_core c
     SET ownership_state = CASE WHEN c.ownership_state = 'leased' THEN 'unowned' ELSE c.ownership_state END,
         raw_fields = {object:c.raw_fields} || jsonb_build_object('completion_repaired_for', c.terminal_at_ms)
    FROM repaired r
   WHERE {in_partitions:c} AND {same_execution:c, r}
),
-- The current attempt without a lease, too: a worker's complete asks for the epoch only, and a wait for children leaves it.
-- In one statement: a renewal may give it a lease only just before it is locked.
fenced AS (
  UPDATE {schema}.ff_attempt a
     SET outcome = CASE WHEN a.lease_expires_at_ms IS NULL THEN a.outcome ELSE coalesce(a.outcome, 'cancelled') END,
         lease_expires_at_ms = NULL, lease_epoch = a.lease_epoch + 1
    FROM repaired r
   WHERE {in_partitions:a} AND {same_execution:a, r}
     AND (a.attempt_index = r.attempt_index OR a.lease_expires_at_ms IS NOT NULL)
),
{clear_waiting:repaired},
lease_event AS (
  {lease_events:'revoked', {taken_leases:repaired}}
),
completion_event AS (
  {completion_events:word, (SELECT partition_key, execution_id, flow_id, word, name_space, instance_tag,
                 terminal_at_ms AS now_ms
            FROM repaired) dated}
),
moved AS (
  SELECT partition_key, execution_id, terminal_at_ms, terminal_at_ms AS due_at_ms, 'repaired' AS outcome FROM repaired
   UNION ALL
  SELECT partition_key, execution_id, terminal_at_ms, terminal_at_ms, 'unclear' FROM doomed
   WHERE is_missed AND word IS NULL
))sql";

std::vector<Fragment> of_the_ended() {
  return {
      {"may_wait(core)", "{core}.lifecycle_phase IN ('submitted', 'runnable', 'blocked')"},
      // "It has ended within max_age, and nobody who repairs has written its event": what its own row tells.
      {"is_marked_by_nobody(core)",
       R"sql({has_ended:{core}} AND {core}.terminal_at_ms >= (SELECT now_ms FROM clock) - {max_age}
     AND {core}.flow_id IS NOT NULL
     AND {core}.raw_fields->'completion_repaired_for' IS DISTINCT FROM to_jsonb({core}.terminal_at_ms))sql"},
      {"is_untold(core)", "{told_end:{core}} IS NULL"}};
}

std::vector<Fragment> of_those_who_wait() {
  return {
      // By ff_edge_upstream_idx, and given up at the first one who waits. Over an edge that is only staged nobody does, but
      // FlowFabric's dispatch would count the event there.
      {"is_waited_for(core)",
       R"sql((SELECT true
            FROM {schema}.ff_edge g
            JOIN {core_by:g, downstream_eid} d ON true
           WHERE {in_partitions:g} AND g.partition_key = {core}.partition_key AND g.flow_id = {core}.flow_id
             AND g.upstream_eid = {core}.execution_id AND {is_applied:g}
             AND d.flow_id = g.flow_id AND {may_wait:d} AND {waits_for:d, {core}} AND {misses:d, {core}}
           LIMIT 1) IS NOT NULL)sql"},
      {"waits_for(downstream, upstream)",
       R"sql(({downstream}.eligibility_state = 'blocked_by_dependencies'
          OR {downstream}.raw_fields->>'replay_count' IS NULL
          OR {replayed_at:{downstream}} <= {upstream}.terminal_at_ms))sql"},
      // FlowFabric's replay leaves the counts as they are: the end of who was replayed may be counted already. Then it is
      // missed only where the fan-in counts more as running than are to come.
      {"misses(downstream, upstream)",
       R"sql(({upstream}.raw_fields->>'replay_count' IS NULL
          OR (SELECT b.running_count
                FROM {schema}.ff_edge_group b
               WHERE {in_partitions:b} AND b.partition_key = {downstream}.partition_key
                 AND b.flow_id = {downstream}.flow_id AND b.downstream_eid = {downstream}.execution_id)
           > (SELECT count(*)
                FROM {schema}.ff_edge x
                JOIN {core_by:x, upstream_eid} u ON true
               WHERE {in_partitions:x} AND x.partition_key = {downstream}.partition_key
                 AND x.flow_id = {downstream}.flow_id AND x.downstream_eid = {downstream}.execution_id
                 AND {is_applied:x} AND {is_to_come:u, {upstream}})))sql"},
      // "It is counted as running, and rightly so": it lives, an end of its is on the way (FlowFabric marks an event first,
      // and counts it later), or it is told before this one, or else two might be told where one is missed.
      {"is_to_come(core, upstream)",
       R"sql(({has_not_ended:{core}}
          OR (SELECT true
                FROM {schema}.ff_completion_event n
               WHERE {in_partitions:n} AND {same_execution:n, {core}} AND n.outcome <> 'resumable'
                 AND coalesce(n.dispatched_at_ms, (SELECT now_ms FROM clock)) >= (SELECT now_ms FROM clock) - 60000
               LIMIT 1) IS NOT NULL
          OR ({core}.raw_fields->>'replay_count' IS NULL OR {core}.execution_id < {upstream}.execution_id)
             AND {is_marked_by_nobody:{core}} AND {is_untold:{core}}))sql"}};
}

}  // namespace

Reconciler completion_repair() {
  using namespace std::chrono_literals;
  Reconciler by_those_who_wait{
      .name = "completion_repair",
      .summary = "Writes the completion event that an ended execution lacks while somebody waits for it.",
      .outcomes = {"repaired", {"unclear", Effect::left_alone}},
      .key = {{"execution_id", "uuid"}, {"terminal_at_ms", "bigint"}},
      .execution_column = "execution_id",
      .scan = kScan,
      .act = kAct,
      .fragments = with(of_the_ended(), of_those_who_wait()),
      .privileges = ending::privileges(replay::privileges(let_finish::privileges(
          {{"ff_edge", "SELECT"}, {"ff_edge_group", "SELECT"}, {"ff_lease_event", "SELECT"}}))),
      .interval = 5s,
      .settings =
          {{.name = "max_age",
            .kind = SettingDecl::Kind::duration,
            .fallback = Milliseconds{24h}.count(),
            .least = Milliseconds{1min}.count(),
            .most = Milliseconds{24h * 3650}.count(),
            .summary =
                "how long ago the end may be; at least an hour less than outbox_retention keeps events"}},
      .walk = {{.table = "ff_exec_core",
                .key = "execution_id",
                .rows = 4000,
                .phases = "'submitted', 'runnable', 'blocked'"}},
      .holdoff = [](const Settings&) { return Milliseconds{0}; },
      .own_parameters = {"max_age"},
      .parameters = [](const Settings& own, const Family&) { return pg::Params::of(*own.at("max_age")); }};
  by_those_who_wait.companions = {shortcut_of(by_those_who_wait, kAnnouncedScan, 4s)};
  return by_those_who_wait;
}

}  // namespace ff::reconcile
