#include "reconcile/family/cancel_groups.hpp"

namespace ff::reconcile::cancel_groups {
namespace {

constexpr Milliseconds kPassedOnWithin{60'000};

constexpr std::string_view kHoldGroups = R"sql(
pending AS MATERIALIZED (
  SELECT p.partition_key, p.flow_id, p.downstream_eid, p.enqueued_at_ms AS due_at_ms, clock.now_ms
    FROM clock, key
    JOIN {schema}.ff_pending_cancel_groups p ON p.partition_key = key.partition_key AND p.flow_id = key.flow_id
                                            AND p.downstream_eid = key.downstream_eid
    LEFT JOIN {core_by:p, downstream_eid} c ON true
   WHERE {in_partitions:p} AND {filter:c} AND {in_sight:ff_edge_group, ff_exec_core}
     FOR UPDATE OF p SKIP LOCKED
),
edge_group AS MATERIALIZED (
  SELECT p.*, g.cancel_siblings_pending_flag AS flag, g.cancel_siblings_pending_members AS members
    FROM pending p
    JOIN {schema}.ff_edge_group g ON g.partition_key = p.partition_key AND g.flow_id = p.flow_id
                                 AND g.downstream_eid = p.downstream_eid
   WHERE {in_partitions:g}
     FOR NO KEY UPDATE OF g SKIP LOCKED
),
without_group AS MATERIALIZED (
  SELECT p.*, EXISTS (SELECT FROM {schema}.ff_edge_group g
                       WHERE {in_partitions:g} AND g.partition_key = p.partition_key
                         AND g.flow_id = p.flow_id AND g.downstream_eid = p.downstream_eid) AS is_there
    FROM pending p
   WHERE (p.partition_key, p.flow_id, p.downstream_eid) NOT IN (
           SELECT partition_key, flow_id, downstream_eid FROM edge_group)
)
)sql";

constexpr std::string_view kJudgedWithoutGroup = R"sql(
  SELECT partition_key, flow_id, downstream_eid, due_at_ms, NULL,
         CASE WHEN is_there THEN '{held}' ELSE '{gone}' END
    FROM without_group
)sql";

constexpr std::string_view kSettleGroups = R"sql(
cleared AS (
  UPDATE {schema}.ff_edge_group g
     SET cancel_siblings_pending_flag = false, cancel_siblings_pending_members = '{}'
    FROM judged j
   WHERE j.outcome = '{cleared}' AND {in_partitions:g} AND g.partition_key = j.partition_key
     AND g.flow_id = j.flow_id AND g.downstream_eid = j.downstream_eid
),
done AS (
  DELETE FROM {schema}.ff_pending_cancel_groups p
   USING judged j
   WHERE j.outcome IN ('{gone}', '{cleared}') AND {in_partitions:p} AND p.partition_key = j.partition_key
     AND p.flow_id = j.flow_id AND p.downstream_eid = j.downstream_eid
),
moved AS (
  SELECT partition_key, flow_id, downstream_eid, due_at_ms, outcome FROM judged
   UNION ALL
  SELECT j.partition_key, j.flow_id, j.downstream_eid, j.due_at_ms, 'malformed'
    FROM judged j, unnest(j.members) AS m(text)
   WHERE j.outcome = '{cleared}' AND {uuid:m.text} IS NULL
)
)sql";

}  // namespace

const std::string_view kPendingScan = R"sql(
  SELECT p.partition_key, p.flow_id, p.downstream_eid, p.enqueued_at_ms AS due_at_ms
    FROM {schema}.ff_pending_cancel_groups p
    LEFT JOIN {core_by:p, downstream_eid} c ON true
   WHERE {in_partitions:p}
     AND {filter:c})sql";

std::vector<Fragment> fragments() {
  return {{"hold_groups", std::string(kHoldGroups)},
          {"judged_without_group(held, gone)", std::string(kJudgedWithoutGroup)},
          {"settle_groups(cleared, gone)", std::string(kSettleGroups)}};
}

Milliseconds holdoff(const Settings&) {
  return Milliseconds::min() / 2;  // half of it: now less that still is a number
}

std::optional<Announcement> announced(const Settings&) {
  return Announcement{kCompletionChannel, kPassedOnWithin};
}

std::vector<Privileges> privileges() {
  return {{"ff_pending_cancel_groups", "SELECT, UPDATE, DELETE"},
          {"ff_edge_group", "SELECT, UPDATE"},
          {"ff_exec_core", "SELECT"}};
}

}  // namespace ff::reconcile::cancel_groups
