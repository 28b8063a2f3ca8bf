#pragma once

#include <vector>

#include "base/fragments.hpp"
#include "reconcile/reconciler.hpp"

/// How an execution ends at a reconciler's hand: the same writes whatever the reason, as common table
/// expressions for an `act`.
///
/// An act that ends executions makes a relation `doomed` from core rows that it has locked, then says
/// {hold_doomed}, decides which of `endable` to end, names that relation `ending`, and says {end_executions}.
/// The columns of `doomed`:
///
///   - {doomed:c}, by the core row c: partition_key, execution_id, attempt_index (the current attempt's), flow_id,
///     now_ms, name_space, instance_tag
///   - public_state: what it ends as, and the outcome of its completion event
///   - attempt_state: as in ff_exec_core
///   - attempt_outcome: what becomes of the current attempt where it holds a lease, or has no outcome yet. Null: it
///     is touched only where it holds a lease
///   - lease_event: `expired` or `revoked`, where the current attempt holds a lease
///   - cancellation_reason, cancelled_by: as they are to stand in the row
///   - raw_patch: what is merged into raw_fields
///
/// All leases of an ended execution go. Of one that an older attempt has left behind nothing is told, as everywhere.
///
/// The core rows have to be {as_seen:c}: of an execution that was claimed or suspended after the statement
/// began it would not see the attempt or the suspension.
namespace ff::reconcile::ending {

/// {doomed:core}, {hold_doomed} and {end_executions}, and two of the parts that it has; every reconciler may use them.
///
/// {hold_doomed} locks everything else that belongs to the doomed (current attempt, leases, suspension, waitpoints),
/// skipping what others hold. Makes `endable`: the doomed of which nothing is held by others, or may be out of sight. An
/// execution must stand in `doomed` once only.
///
/// {end_executions} ends what is in `ending` (columns of `doomed`; each execution once): core, attempt, suspension,
/// waitpoints, lease and completion events. Nothing is left to do when it is empty.
///
/// {clear_waiting:ended} deletes suspension and waitpoints of the rows of such a relation; {taken_leases:ended} are the
/// leases that `doomed_attempt` has of them, to tell of.
std::vector<Fragment> phrases();

/// What they need, and reading `doomed`; and behind it what the act needs `beside`.
std::vector<Privileges> privileges(const std::vector<Privileges>& beside = {});

}  // namespace ff::reconcile::ending
