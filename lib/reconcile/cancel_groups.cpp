#include "reconcile/cancel_groups.hpp"

#include "reconcile/phrases.hpp"

namespace ff::reconcile::cancel_groups {

using phrases::core_matches;

namespace {

constexpr Milliseconds kPassedOnWithin{60'000};

}  // namespace

std::string scan() {
  return R"sql(
  SELECT p.partition_key, p.flow_id, p.downstream_eid, p.enqueued_at_ms AS due_at_ms
    FROM ff_pending_cancel_groups p
    LEFT JOIN )sql" +
         phrases::core_of("p", "downstream_eid") +
         R"sql( c ON true
   WHERE p.partition_key = ANY($1)
     AND )sql" +
         core_matches("c");
}

std::optional<Announcement> announced(const Settings&) {
  return Announcement{kCompletionChannel, kPassedOnWithin};
}

std::string hold_groups() {
  return R"sql(
pending AS MATERIALIZED (
  SELECT p.partition_key, p.flow_id, p.downstream_eid, p.enqueued_at_ms AS due_at_ms, clock.now_ms
    FROM clock, key
    JOIN ff_pending_cancel_groups p ON p.partition_key = key.partition_key AND p.flow_id = key.flow_id
                                   AND p.downstream_eid = key.downstream_eid
    LEFT JOIN )sql" +
         phrases::core_of("p", "downstream_eid") +
         R"sql( c ON true
   WHERE p.partition_key = ANY($1) AND p.enqueued_at_ms + 0 <= clock.due_ms
     AND )sql" +
         core_matches("c") +
         R"sql(
     FOR UPDATE OF p SKIP LOCKED
),
edge_group AS MATERIALIZED (
  SELECT p.*, g.cancel_siblings_pending_flag AS flag, g.cancel_siblings_pending_members AS members
    FROM pending p
    JOIN ff_edge_group g ON g.partition_key = p.partition_key AND g.flow_id = p.flow_id
                        AND g.downstream_eid = p.downstream_eid
   WHERE g.partition_key = ANY($1)
     FOR NO KEY UPDATE OF g SKIP LOCKED
),
without_group AS MATERIALIZED (
  SELECT p.*, EXISTS (SELECT FROM ff_edge_group g
                       WHERE g.partition_key = ANY($1) AND g.partition_key = p.partition_key
                         AND g.flow_id = p.flow_id AND g.downstream_eid = p.downstream_eid) AS is_there
    FROM pending p
   WHERE (p.partition_key, p.flow_id, p.downstream_eid) NOT IN (
           SELECT partition_key, flow_id, downstream_eid FROM edge_group)
),)sql";
}

std::vector<Privileges> privileges() {
  return {{"ff_pending_cancel_groups", "SELECT, UPDATE, DELETE"},
          {"ff_edge_group", "SELECT, UPDATE"},
          {"ff_exec_core", "SELECT"}};
}

}  // namespace ff::reconcile::cancel_groups
