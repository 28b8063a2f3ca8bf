#include "audit/check.hpp"

namespace ff::audit {
namespace {

constexpr std::string_view kMissing = R"sql(
SELECT 'suspended_without_suspension' AS problem, c.partition_key, c.execution_id::text AS key, c.xmin::text AS seen,
       'no row in ff_suspension_current' AS what
  FROM {living}
 WHERE c.lifecycle_phase = 'suspended'
   AND NOT EXISTS (SELECT
                     FROM {schema}.ff_suspension_current s
                    WHERE {in_partitions:s} AND s.partition_key = c.partition_key AND s.execution_id = c.execution_id))sql";

constexpr std::string_view kSuspensions = R"sql(
SELECT p.problem, s.partition_key, s.execution_id::text AS key, concat_ws(',', s.xmin, c.seen) AS seen,
       format('suspended_at_ms %s, timeout_at_ms %s, execution %s', s.suspended_at_ms,
              coalesce(s.timeout_at_ms::text, 'none'), coalesce(c.lifecycle_phase, 'missing')) AS what
  FROM {schema}.ff_suspension_current s
  LEFT JOIN {core:s, execution_id} c ON true
 CROSS JOIN LATERAL (
   SELECT CASE
     WHEN c.lifecycle_phase IS NULL THEN 'suspension_without_execution'
     WHEN c.lifecycle_phase = 'suspended'
          AND (jsonb_typeof(s.member_map) <> 'object'
               OR EXISTS (SELECT FROM jsonb_each({object:s.member_map}) AS m(key, value)
                           WHERE jsonb_typeof(m.value) <> 'array')) THEN 'signals_refused'
     WHEN c.lifecycle_phase = 'suspended' AND {is_unreadable:s.condition}
          AND (s.timeout_at_ms IS NULL OR s.timeout_at_ms >= {long_ago}) THEN 'condition_unreadable'
     WHEN s.timeout_at_ms IS NULL THEN
       CASE WHEN c.lifecycle_phase = 'suspended' AND s.suspended_at_ms < {long_ago} AND {is_out_of_reach}
            THEN 'suspended_for_ever' END
     WHEN s.timeout_at_ms >= {long_ago} THEN NULL
     WHEN c.lifecycle_phase = 'suspended' THEN 'suspension_overdue'
     WHEN {has_ended:c} THEN 'suspension_left'
     ELSE 'time_out_left'
   END AS problem
 ) p
 WHERE {in_partitions:s} AND p.problem IS NOT NULL)sql";

// Those of who has ended go when they are met, which may take a while where there are many: hence the ten minutes. Each
// of the two moments may be taken by a reading of its own.
constexpr std::string_view kWaitpoints = R"sql(
SELECT p.problem, w.partition_key, w.execution_id::text AS key, concat_ws(',', w.xmin, c.seen, s.xmin) AS seen,
       format('waitpoint %s, %s, expires_at_ms %s, execution %s', w.waitpoint_id, w.state,
              coalesce(w.expires_at_ms::text, 'none'), coalesce(c.lifecycle_phase, 'missing')) AS what,
       w.waitpoint_id
  FROM {schema}.ff_waitpoint_pending w
  LEFT JOIN {core:w, execution_id} c ON true
  LEFT JOIN LATERAL (SELECT i.xmin, i.suspended_at_ms, i.condition
                       FROM {schema}.ff_suspension_current i
                      WHERE {in_partitions:i} AND i.partition_key = w.partition_key AND i.execution_id = w.execution_id
                     OFFSET 0) s ON true
 CROSS JOIN LATERAL (
   SELECT CASE
     WHEN c.lifecycle_phase IS NULL THEN 'waitpoint_without_execution'
     WHEN w.state NOT IN ('pending', 'active') THEN 'waitpoint_unknown'
     WHEN {has_ended:c} AND s.suspended_at_ms IS NOT NULL THEN
       CASE WHEN c.terminal_at_ms < {long_ago} - 540000 THEN 'waitpoint_left' END
     WHEN w.state = 'pending' THEN
       CASE WHEN w.expires_at_ms < {long_ago} THEN 'waitpoint_overdue' END
     WHEN s.suspended_at_ms IS NULL OR c.lifecycle_phase <> 'suspended' THEN 'waitpoint_astray'
     WHEN w.activated_at_ms < s.suspended_at_ms - 1000.0 THEN 'waitpoint_of_before'
     WHEN s.suspended_at_ms < {long_ago} AND {is_without_its_key} THEN 'waitpoint_without_key'
   END AS problem
 ) p
 WHERE {in_partitions:w} AND p.problem IS NOT NULL)sql";

}  // namespace

std::vector<Sweep> sweeps_of_suspensions() {
  const std::string delete_waitpoint = "DELETE FROM ff_waitpoint_pending {of_waitpoint};";
  return {
      {.sql = std::string(kMissing),
       .checks = {{"suspended_without_suspension",
                   "it is suspended, but its suspension is not there: no signal and no time-out can reach it",
                   "{core:{waits}}"}}},
      {.sql = std::string(kSuspensions),
       .checks = {{"suspension_without_execution", "a suspension of an execution that is not there",
                   "DELETE FROM ff_suspension_current {of_it};"},
                  {"signals_refused",
                   "something other than lists of signals stands in its member_map: deliver_signal refuses "
                   "the next one",
                   "UPDATE ff_suspension_current SET member_map = coalesce((SELECT jsonb_object_agg(m.key, "
                   "m.value) FROM "
                   "jsonb_each(CASE WHEN jsonb_typeof(member_map) = 'object' THEN member_map END) AS m(key, "
                   "value) WHERE "
                   "jsonb_typeof(m.value) = 'array'), '{}') {of_it};"},
                  {"condition_unreadable",
                   "what it waits for is nothing that FlowFabric can read: deliver_signal refuses every "
                   "signal",
                   "UPDATE ff_suspension_current SET condition = '\"OperatorOnly\"' {of_it}; -- which is how "
                   "it is: an operator's resume or cancel ends it, or its time-out; or with the condition "
                   "that is meant"},
                  {"suspended_for_ever",
                   "it is suspended without a time-out, and a waitpoint is not open where a signal has still "
                   "to come: only an operator's resume can wake it",
                   "DELETE FROM ff_suspension_current {of_it}; DELETE FROM ff_waitpoint_pending {of_it}; "
                   "{core:{waits}}"},
                  {"suspension_overdue", "its time-out was more than a minute ago, and it is suspended still",
                   "{tick:suspension_timeout}"},
                  {"suspension_left",
                   "it has ended, and a suspension whose time-out has passed is there still",
                   "{tick:suspension_timeout}"},
                  {"time_out_left",
                   "it has gone on, and the time-out of its suspension, which has passed, is there still",
                   "{tick:suspension_timeout}"}}},
      {.sql = std::string(kWaitpoints),
       .checks = {
           {"waitpoint_without_execution", "a waitpoint of an execution that is not there", delete_waitpoint},
           {"waitpoint_unknown", "its waitpoint is neither pending nor active: nobody closes it",
            "UPDATE ff_waitpoint_pending SET state = CASE WHEN activated_at_ms IS NULL THEN 'pending' ELSE "
            "'active' END {of_waitpoint};"},
           {"waitpoint_left",
            "it ended more than ten minutes ago with a waitpoint open: a late signal would begin it anew",
            "{tick:suspension_timeout}"},
           {"waitpoint_overdue", "a waitpoint that no suspension used expired more than a minute ago",
            "{tick:pending_waitpoint_expiry}"},
           {"waitpoint_astray",
            "an active waitpoint without a suspension, as an operator's resume leaves it: a signal on it "
            "counts "
            "for the next suspension of the same key",
            "{tick:stray_waitpoint}"},
           {"waitpoint_of_before",
            "an active waitpoint of an earlier suspension: a signal on it counts for the present one",
            "{tick:stray_waitpoint}"},
           {"waitpoint_without_key",
            "FlowFabric has lost the key of a waitpoint while it suspended: no signal on it counts",
            "{tick:stray_waitpoint}"}}}};
}

}  // namespace ff::audit
