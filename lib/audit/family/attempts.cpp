#include "audit/check.hpp"

namespace ff::audit {
namespace {

// Whoever takes over with a reclaim grant leaves the lease of the attempt before, and marks it. A lease that ended long
// ago is left while a reclaim grant is out for its execution.
constexpr std::string_view kLeases = R"sql(
SELECT p.problem, a.partition_key, a.execution_id::text AS key, concat_ws(',', a.xmin, c.seen) AS seen,
       format('attempt %s of %s, epoch %s, lease_expires_at_ms %s, execution %s', a.attempt_index,
              coalesce(a.worker_instance_id, a.worker_id, 'nobody'), a.lease_epoch, a.lease_expires_at_ms,
              coalesce(c.lifecycle_phase, 'missing')) AS what,
       a.attempt_index
  FROM {schema}.ff_attempt a
  LEFT JOIN {core:a, execution_id} c ON true
 CROSS JOIN LATERAL (
   SELECT CASE
     WHEN c.lifecycle_phase IS NULL THEN NULL
     WHEN a.lease_epoch < 1 THEN 'lease_without_epoch'
     WHEN a.worker_id IS NULL AND a.worker_instance_id IS NULL THEN 'lease_without_worker'
     WHEN a.lease_expires_at_ms > {now} + 2592000000 THEN 'lease_for_ever'
     WHEN a.lease_expires_at_ms >= {now} THEN
       CASE WHEN c.lifecycle_phase = 'active' AND a.outcome IS DISTINCT FROM 'interrupted_reclaimed'
                 AND {later_lease:a, {now}} THEN 'two_leases' END
     WHEN a.lease_expires_at_ms >= {long_ago} THEN NULL
     WHEN c.lifecycle_phase = 'active' AND {later_lease:a, 0} THEN 'older_lease_left'
     WHEN {has_ended:c} THEN 'lease_left'
     WHEN {promised:a} THEN NULL
     WHEN c.lifecycle_phase = 'active' THEN 'lease_overdue'
     ELSE 'lease_of_who_waits'
   END AS problem
 ) p
 WHERE {in_partitions:a} AND a.lease_expires_at_ms IS NOT NULL AND p.problem IS NOT NULL)sql";

constexpr std::string_view kOrphans = R"sql(
SELECT 'attempt_without_execution' AS problem, a.partition_key, a.execution_id::text AS key, a.xmin::text AS seen,
       format('attempt %s of %s, %s', a.attempt_index, coalesce(a.worker_instance_id, a.worker_id, 'nobody'),
              coalesce(a.outcome, 'no outcome')) AS what,
       a.attempt_index
  FROM {schema}.ff_attempt a
 WHERE {in_partitions:a}
   AND NOT EXISTS (SELECT
                     FROM {schema}.ff_exec_core c
                    WHERE {in_partitions:c} AND c.partition_key = a.partition_key AND c.execution_id = a.execution_id))sql";

}  // namespace

std::vector<Sweep> sweeps_of_attempts() {
  return {
      {.sql = std::string(kLeases),
       .checks =
           {{"lease_without_epoch",
             "a lease without an epoch: a worker that comes back too late would not be refused",
             "UPDATE ff_attempt SET lease_epoch = 1 {of_attempt};"},
            {"lease_without_worker", "a lease that nobody holds: nobody can renew it or give it back",
             "UPDATE ff_attempt SET lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1 {of_attempt}; "
             "{core_set:{waits}, attempt_index = {$attempt_index}} AND {is_at_work_on_it_alone};"},
            {"lease_for_ever",
             "a lease that ends in a month or later: were its worker to crash, nobody would notice",
             "UPDATE ff_attempt SET lease_expires_at_ms = floor(extract(epoch FROM clock_timestamp()) * "
             "1000)::bigint + 60000 "
             "{of_attempt}; -- in a minute lease_expiry takes it: ask a worker first that renews less often"},
            {"two_leases",
             "two of its attempts have a lease, and neither has lapsed: two workers may be at work on it",
             "UPDATE ff_attempt SET lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1, outcome = "
             "coalesce(outcome, 'interrupted') {of_attempt};"},
            {"older_lease_left",
             "a lease lapsed more than a minute ago on an attempt before the one that is worked on, and is "
             "there still",
             "{tick:lease_expiry}"},
            {"lease_left",
             "it has ended, and a lease of its that lapsed more than a minute ago is there still",
             "{tick:lease_expiry}"},
            {"lease_overdue", "its lease lapsed more than a minute ago, and nobody has taken it",
             "{tick:lease_expiry}"},
            {"lease_of_who_waits",
             "it waits, and a lease of its that lapsed more than a minute ago is there still",
             "{tick:lease_expiry}"}}},
      {.sql = std::string(kOrphans),
       .checks = {{"attempt_without_execution", "an attempt of an execution that is not there",
                   "DELETE FROM ff_attempt {of_attempt};"}}}};
}

}  // namespace ff::audit
