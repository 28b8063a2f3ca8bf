// Of what a flow's cancel left, and of executions where nobody looks.

#include "audit/check.hpp"

namespace ff::audit {
namespace {

// A signal or a retry that came after the cancel gives it back its life. Other policies let members finish, and a replay
// is somebody's will.
constexpr std::string_view kMembers = R"sql(
SELECT 'member_of_cancelled' AS problem, c.partition_key, c.execution_id::text AS key, concat_ws(',', c.xmin, f.xmin) AS seen,
       format('%s, flow %s cancelled at %s', c.lifecycle_phase, c.flow_id, coalesce(f.terminal_at_ms::text, 'no time'))
         AS what,
       c.flow_id
  FROM {living}
  JOIN LATERAL (SELECT i.xmin, i.terminal_at_ms, {object:i.raw_fields}->>'cancellation_policy' AS policy
                  FROM {schema}.ff_flow_core i
                 WHERE {in_partitions:i} AND i.partition_key = c.partition_key AND i.flow_id = c.flow_id
                   AND i.public_flow_state = 'cancelled'
                OFFSET 0) f ON true
 WHERE coalesce(f.policy, 'cancel_all') = 'cancel_all' AND {not_replayed:c}
   AND NOT EXISTS (SELECT
                     FROM {schema}.ff_cancel_backlog_member m
                    WHERE {in_partitions:m} AND m.partition_key = c.partition_key AND m.flow_id = c.flow_id
                      AND right(m.execution_id, 36) = c.execution_id::text))sql";

// Not those whom their policy lets finish. A large one takes long, but its members become fewer.
constexpr std::string_view kBacklog = R"sql(
SELECT p.problem, b.partition_key,
       format('flow %s (partition %s)', b.flow_id, b.partition_key) AS key, concat_ws(',', b.xmin, m.in_all, m.left) AS seen,
       format('requested_at_ms %s, %s, %s members', b.requested_at_ms, b.cancellation_policy, m.left) AS what
  FROM {schema}.ff_cancel_backlog b
 CROSS JOIN LATERAL (
   SELECT count(*) AS in_all,
          count(*) FILTER (WHERE b.cancellation_policy = 'cancel_all'
                                 OR NOT EXISTS (SELECT
                                                  FROM {schema}.ff_attempt l
                                                 WHERE {in_partitions:l} AND l.partition_key = i.partition_key
                                                   AND l.execution_id = {uuid:right(i.execution_id, 36)}
                                                   AND l.lease_expires_at_ms >= {long_ago})) AS left
     FROM {schema}.ff_cancel_backlog_member i
    WHERE {in_partitions:i} AND i.partition_key = b.partition_key AND i.flow_id = b.flow_id
 ) m
 CROSS JOIN LATERAL (
   SELECT CASE WHEN m.left > 0 THEN 'cancel_backlog_overdue'
               WHEN m.in_all = 0 AND greatest(b.requested_at_ms, b.grace_until_ms) < {now} - 3600000
                 THEN 'cancel_backlog_left' END AS problem
 ) p
 WHERE {in_partitions:b} AND greatest(b.requested_at_ms, b.grace_until_ms) < {long_ago} AND p.problem IS NOT NULL)sql";

// cancel_backlog reads the members by their request, which is written with the first of them and goes with the last.
constexpr std::string_view kWithoutRequest = R"sql(
SELECT 'cancel_member_left' AS problem, m.partition_key,
       format('flow %s (partition %s)', m.flow_id, m.partition_key) AS key, m.xmin::text AS seen,
       format('member %s', m.execution_id) AS what, m.flow_id, m.execution_id AS member
  FROM {schema}.ff_cancel_backlog_member m
 WHERE {in_partitions:m}
   AND NOT EXISTS (SELECT
                     FROM {schema}.ff_cancel_backlog b
                    WHERE {in_partitions:b} AND b.partition_key = m.partition_key AND b.flow_id = m.flow_id))sql";

constexpr std::string_view kMisplaced = R"sql(
SELECT 'execution_astray' AS problem, c.partition_key, c.execution_id::text AS key, c.xmin::text AS seen,
       format('partition_key %s, %s', c.partition_key, c.lifecycle_phase) AS what
  FROM {schema}.ff_exec_core c
 WHERE c.partition_key < 0
    OR c.partition_key >= (SELECT num_flow_partitions FROM {schema}.ff_partition_config))sql";

}  // namespace

std::vector<Sweep> sweeps_of_flows() {
  return {
      {.sql = std::string(kMembers),
       .checks =
           {{"member_of_cancelled",
             "its flow was cancelled, and it lives on: a signal or a retry came after the cancel",
             "INSERT INTO ff_cancel_backlog (partition_key, flow_id, requested_at_ms, cancellation_policy) "
             "VALUES ({$partition_key}, '{$flow_id}', floor(extract(epoch FROM clock_timestamp()) * "
             "1000)::bigint, 'cancel_all') ON CONFLICT DO NOTHING; INSERT INTO ff_cancel_backlog_member "
             "(partition_key, flow_id, execution_id) VALUES ({$partition_key}, '{$flow_id}', '{$id}'); -- "
             "cancel_backlog does the rest; or FlowFabric's cancel_execution"}}},
      {.of_executions = false,
       .sql = std::string(kBacklog),
       .checks =
           {{"cancel_backlog_overdue",
             "it was cancelled more than a minute ago, and members of its have not been",
             "ff-reconcilerd tick cancel_backlog"},
            {"cancel_backlog_left",
             "its cancel was asked for more than an hour ago, has nobody left to cancel, and is listed still",
             "ff-reconcilerd tick cancel_backlog"}}},
      {.of_executions = false,
       .sql = std::string(kWithoutRequest),
       .checks =
           {{"cancel_member_left",
             "a member is listed to be cancelled, but no request is there that leads anybody to it",
             "DELETE FROM ff_cancel_backlog_member WHERE partition_key = {$partition_key} AND flow_id = "
             "'{$flow_id}' AND execution_id = '{$member}'; -- then audit again: it says so if its flow "
             "was cancelled, and it lives on"}}},
      {.space = Space::none,
       .sql = std::string(kMisplaced),
       .checks = {
           {"execution_astray",
            "an execution of a partition that is not there: no worker and no reconciler meets it",
            "DELETE FROM ff_exec_core {of_it}; -- but where num_flow_partitions in ff_partition_config was "
            "made smaller, set it back instead"}}}};
}

}  // namespace ff::audit
