#include "audit/check.hpp"
#include "audit/remedy.hpp"

namespace ff::audit {
namespace {

constexpr std::string_view kUndispatched = R"sql(
SELECT 'end_not_passed_on' AS problem, e.partition_key, e.execution_id::text AS key, e.xmin::text AS seen,
       format('completion event %s, %s, committed_at_ms %s', e.event_id, e.outcome, e.committed_at_ms) AS what
  FROM {schema}.ff_completion_event e
 WHERE {in_partitions:e} AND e.dispatched_at_ms IS NULL AND e.committed_at_ms < {long_ago})sql";

// An event that has been deleted since had been counted: so only where fewer ends are counted than there were.
constexpr std::string_view kUntold = R"sql(
SELECT DISTINCT 'end_untold' AS problem, u.partition_key, u.execution_id::text AS key, u.seen::text AS seen,
       format('%s since %s', u.public_state, u.terminal_at_ms) AS what, {word_of_end:u} AS word
  FROM {schema}.ff_edge_group g
  JOIN {core:g, downstream_eid} c ON true
  JOIN {schema}.ff_edge d ON {in_partitions:d} AND d.partition_key = g.partition_key AND d.flow_id = g.flow_id
                         AND d.downstream_eid = g.downstream_eid AND {is_applied:d}
  JOIN {core:d, upstream_eid} u ON true
 WHERE {in_partitions:g} AND g.running_count > 0 AND {has_not_ended:c} AND {not_replayed:c}
   AND {has_ended:u} AND u.terminal_at_ms < {long_ago} AND {not_replayed:u} AND NOT {told:u}
   AND g.success_count::bigint + g.fail_count + g.skip_count < (
         SELECT count(*)
           FROM {schema}.ff_edge o
           JOIN {core:o, upstream_eid} v ON true
          WHERE {in_partitions:o} AND o.partition_key = g.partition_key AND o.flow_id = g.flow_id
            AND o.downstream_eid = g.downstream_eid AND {is_applied:o} AND {has_ended:v}))sql";

constexpr std::string_view kTooEarly = R"sql(
SELECT 'told_but_alive' AS problem, c.partition_key, c.execution_id::text AS key, concat_ws(',', c.xmin, e.xmin) AS seen,
       format('completion event %s, %s; it is %s', e.event_id, e.outcome, c.lifecycle_phase) AS what, e.event_id
  FROM {living}
  JOIN LATERAL (SELECT i.xmin, i.event_id, i.outcome
                  FROM {schema}.ff_completion_event i
                 WHERE {in_partitions:i} AND i.partition_key = c.partition_key AND i.execution_id = c.execution_id
                   AND i.outcome <> 'resumable'
                 ORDER BY i.event_id DESC
                 LIMIT 1) e ON true
 WHERE c.terminal_at_ms IS NULL AND {not_replayed:c})sql";

constexpr std::string_view kMisplaced = R"sql(
SELECT 'lease_event_astray' AS problem, 0 AS partition_key, 'lease event ' || l.event_id AS key, l.xmin::text AS seen,
       format('partition_key %s, execution %s, %s', l.partition_key, l.execution_id, l.event_type) AS what, l.event_id
  FROM {schema}.ff_lease_event l
 WHERE l.partition_key < 0
    OR l.partition_key >= (SELECT num_flow_partitions FROM {schema}.ff_partition_config))sql";

}  // namespace

std::vector<Sweep> sweeps_of_events() {
  return {
      {.sql = std::string(kUndispatched),
       .checks = {{"end_not_passed_on",
                   "it ended more than a minute ago, and nobody has passed that on to those who wait for it",
                   "{tick:dependency}"}}},
      {.sql = std::string(kUntold),
       .checks =
           {{"end_untold",
             "it ended without a completion event, as an operator's cancel ends it, and others wait for it "
             "for ever",
             "{tick:completion_repair} # what ended longer ago than its max_age: " +
                 insert_event_of_end("{$word}", "{of_it}") + " -- dependency does the rest"}}},
      {.sql = std::string(kTooEarly),
       .checks =
           {{"told_but_alive",
             "a completion event says that it has ended, but it has not: those who wait for it were misled",
             "DELETE FROM ff_completion_event WHERE partition_key = {$partition_key} AND event_id = "
             "{$event_id};"}}},
      {.space = Space::none,
       .of_executions = false,
       .sql = std::string(kMisplaced),
       .checks = {{"lease_event_astray",
                   "a lease event of a partition that is not there: no reader of one partition meets it",
                   "DELETE FROM ff_lease_event WHERE event_id = {$event_id};"}}}};
}

}  // namespace ff::audit
