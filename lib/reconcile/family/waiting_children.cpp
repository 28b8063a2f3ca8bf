// dependency, its companions: who waits for children that have all ended before it began to wait.
//
// Rows     ff_exec_core that waits for its children, with an edge group of which nobody is running and somebody has
//          been counted. No index leads to them, so the runnable executions of each lane are read, the more seldom the
//          longer that takes; another pair meanwhile takes those that the newest lease events name. Such a row is due
//          since it was made: nothing tells when it began to wait. Not while an edge is being staged.
// Changes  the core row: eligible_now, waiting, at the attempt that it continues. No event: no lease and no ending is
//          involved.
// Others   The event of a child that ends later wakes it as well (dependency), whoever comes first. An edge that is
//          applied meanwhile is in the counts of the group, which is locked and looked at again.
// Repeat   Afterwards the row does not wait any more, so it is not found again.

#include "reconcile/family/waiting_children.hpp"

#include "reconcile/family/shortcut.hpp"

namespace ff::reconcile::waiting_children {
namespace {

constexpr std::string_view kScan = R"sql(
  SELECT c.partition_key, c.execution_id, {not_later:c.created_at_ms} AS due_at_ms
    FROM {runnable_by_lane} c
    JOIN {group_of:c} g ON true
   WHERE {nobody_is_left:g} AND {none_is_staged:g} AND {waits_for_children:c} AND {filter:c})sql";

constexpr std::string_view kAnnouncedScan = R"sql(
  SELECT a.partition_key, c.execution_id, {not_later:c.created_at_ms} AS due_at_ms
    FROM {lately_released} a
    JOIN {core_of:a} c ON true
    JOIN {group_of:c} g ON true
   WHERE c.lifecycle_phase = 'runnable' AND {nobody_is_left:g} AND {none_is_staged:g} AND {waits_for_children:c} AND {filter:c})sql";

constexpr std::string_view kAct = R"sql(
waited AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, c.created_at_ms AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_exec_core c ON {same_execution:c, key}
    {as_seen:c}
    JOIN {schema}.ff_edge_group g ON g.partition_key = c.partition_key AND g.flow_id = c.flow_id
                                 AND g.downstream_eid = c.execution_id
   WHERE {in_partitions:c} AND {in_partitions:g}
     AND c.lifecycle_phase = 'runnable' AND {nobody_is_left:g} AND {none_is_staged:g} AND {waits_for_children:c} AND {filter:c}
     AND {in_sight:ff_edge, ff_attempt}
     FOR NO KEY UPDATE OF c, g SKIP LOCKED
),
eligible AS (
  UPDATE {schema}.ff_exec_core c
     SET {made_eligible}
    FROM waited w
   WHERE {in_partitions:c} AND {same_execution:c, w}
),
moved AS (SELECT partition_key, execution_id, due_at_ms, 'woken' AS outcome FROM waited))sql";

}  // namespace

std::vector<Fragment> fragments() {
  // Looked up by its key, execution by execution.
  return {
      {"group_of(core)",
       R"sql(LATERAL (SELECT *
                     FROM {schema}.ff_edge_group i
                    WHERE {in_partitions:i} AND i.partition_key = {core}.partition_key
                      AND i.flow_id = {core}.flow_id AND i.downstream_eid = {core}.execution_id
                   OFFSET 0))sql"},
      {"waits_for_children(core)",
       R"sql({core}.eligibility_state = 'blocked_by_dependencies'
     AND {core}.blocking_reason = 'waiting_for_children')sql"},
      {"nobody_is_left(group)",
       R"sql({group}.running_count = 0
     AND greatest({group}.success_count, {group}.fail_count, {group}.skip_count) > 0)sql"},
      // "No child is still to be counted": an edge is staged first and applied later. Who stages one may have died
      // before the other, so that none is waited for for ever.
      {"none_is_staged(group)",
       R"sql((SELECT true
            FROM {schema}.ff_edge i
           WHERE {in_partitions:i} AND i.partition_key = {group}.partition_key AND i.flow_id = {group}.flow_id
             AND i.downstream_eid = {group}.downstream_eid AND i.policy->>'edge_state' = 'pending'
             AND {moment:i.policy->>'staged_at_ms'} > (SELECT now_ms FROM clock) - {longest_staging}
           LIMIT 1) IS NULL)sql"},
      {"longest_staging", "600000"},
      {"made_eligible",
       R"sql(eligibility_state = 'eligible_now', public_state = 'waiting',
         attempt_index = {next_attempt:c},
         raw_fields = {object:c.raw_fields} || {attempt_count:{next_attempt:c}})sql"}};
}

std::vector<Reconciler> woken(Reconciler dependency) {
  using namespace std::chrono_literals;
  dependency.outcomes = {"woken"};
  dependency.ends_others = {};
  dependency.key = {{"execution_id", "uuid"}};
  dependency.scan = kScan;
  dependency.act = kAct;
  dependency.interval = 5s;
  dependency.rows_meet = false;
  dependency.holdoff = [](const Settings&) { return Milliseconds{0}; };
  dependency.searches = true;
  dependency.foreseen = false;  // what is only staged stops counting by time alone
  return {shortcut_of(dependency, kAnnouncedScan, 2s), dependency};
}

}  // namespace ff::reconcile::waiting_children
