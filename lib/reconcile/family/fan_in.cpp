#include "reconcile/family/fan_in.hpp"

#include "reconcile/family/waiting_children.hpp"
#include "reconcile/with.hpp"

namespace ff::reconcile::fan_in {
namespace {

constexpr std::string_view kMakeEligible = R"sql(UPDATE {schema}.ff_exec_core c
     SET lifecycle_phase = CASE WHEN c.lifecycle_phase = 'blocked' THEN 'runnable' ELSE c.lifecycle_phase END,
         {made_eligible}
    FROM verdict v
   WHERE (v.satisfied AND NOT v.was_satisfied
          -- Satisfied long before, it has run and waits for the rest of those that it depends on.
          OR v.running = 0 AND {waits_for_children:c})
     AND c.lifecycle_phase IN ('submitted', 'runnable', 'blocked')
     -- On its way already, or with a time of its own. What waits for its children may be called resumable still, by a
     -- claim_from_resume_grant.
     AND (c.public_state <> 'resumable' OR c.eligibility_state = 'blocked_by_dependencies')
     AND c.eligibility_state NOT IN ('pending_claim', 'not_eligible_until_time')
     AND (v.partition_key, v.downstream_eid) NOT IN (SELECT partition_key, execution_id FROM ending)
     AND {in_partitions:c} AND {found_by:c, v, downstream_eid})sql";

constexpr std::string_view kSettle = R"sql(settled AS MATERIALIZED (
  SELECT v.*,
         (SELECT array_agg(DISTINCT c.execution_id::text)
            FROM {schema}.ff_edge d
            JOIN {schema}.ff_exec_core c ON {found_by:c, d, upstream_eid}
           WHERE {in_partitions:d} AND {in_partitions:c}
             AND d.partition_key = v.partition_key AND d.flow_id = v.flow_id AND d.downstream_eid = v.downstream_eid
             AND v.satisfied AND NOT v.was_satisfied AND v.kind IN ('any_of', 'quorum') AND NOT v.let_run
             AND {has_not_ended:c} AND c.public_state <> 'skipped'
             AND c.execution_id <> ALL (v.upstreams)) AS to_cancel
    FROM verdict v
),
counted AS (
  UPDATE {schema}.ff_edge_group g
     SET success_count = v.success, fail_count = v.fail, skip_count = v.skip, running_count = v.running,
         cancel_siblings_pending_flag = g.cancel_siblings_pending_flag OR v.to_cancel IS NOT NULL,
         cancel_siblings_pending_members = coalesce(v.to_cancel, g.cancel_siblings_pending_members)
    FROM settled v
   WHERE {in_partitions:g} AND g.partition_key = v.partition_key AND g.flow_id = v.flow_id
     AND g.downstream_eid = v.downstream_eid
),
pending AS (
  INSERT INTO {schema}.ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
  SELECT v.partition_key, v.flow_id, v.downstream_eid, clock.now_ms
    FROM settled v, clock
   WHERE v.to_cancel IS NOT NULL
  ON CONFLICT DO NOTHING
))sql";

}  // namespace

std::vector<Fragment> phrases() {
  return {{"kind_of(group)",
           "CASE WHEN {group}.policy->>'kind' IN ('any_of', 'quorum') THEN {group}.policy->>'kind' ELSE "
           "'all_of' END"},
          {"policy_of(group)",
           R"sql({kind_of:{group}} AS kind, {whole_number_or:1, {group}.policy->'k'} AS k)sql"},
          {"satisfied(policy, success, n)",
           R"sql(CASE {policy}.kind WHEN 'any_of' THEN {success} >= 1
                    WHEN 'quorum' THEN {success} >= {policy}.k
                    ELSE {success} = {n} AND {n} > 0 END)sql"},
          {"impossible(policy, success, bad, running)",
           R"sql(CASE {policy}.kind WHEN 'any_of' THEN {success} + {running} <= 0 AND {bad} > 0
                    WHEN 'quorum' THEN {success} + {running} < {policy}.k
                    ELSE {bad} > 0 END)sql"},
          {"is_decided(policy, success, bad, running)",
           R"sql(({success} + {bad} > 0
            AND ({satisfied:{policy}, {success}, ({success} + {bad} + {running})}
                 OR {impossible:{policy}, {success}, {bad}, {running}})))sql"}};
}

std::vector<Fragment> fragments() {
  return with(
      waiting_children::fragments(),
      {{"was_impossible",
        R"sql((t.counted_before > 0
          AND {impossible:t, t.success_before, (t.counted_before - t.success_before), t.running_before}))sql"},
       // Whoever first counts it impossible ends its downstream by the same transaction, so that one who
       // lives has been brought back since.
       {"brought_back(doomed)",
        R"sql(({doomed}.was_replayed
          AND ({doomed}.partition_key, {doomed}.execution_id) IN (
                SELECT partition_key, downstream_eid FROM verdict WHERE was_impossible)))sql"},
       {"lets_run(group)", "{group}.policy->>'on_satisfied' IS NOT DISTINCT FROM 'let_run'"},
       {"settle", std::string(kSettle)},
       {"was_replayed(core)", "{core}.raw_fields->>'replay_count' IS NOT NULL AS was_replayed"},
       {"make_eligible", std::string(kMakeEligible)}});
}

}  // namespace ff::reconcile::fan_in
