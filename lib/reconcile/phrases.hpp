#pragma once

#include <string>
#include <string_view>

/// Pieces of SQL that several reconcilers say in the same words. All of them are texts made once, at start;
/// no value is ever formatted into one.
namespace ff::reconcile::phrases {

/// The core row of the execution of a row with this alias, as something to join with ON true. It is looked up
/// by its key, row by row: without the barrier in it, a planner whose statistics are stale may read the whole
/// table instead.
/// `execution` is the row's column that names it.
std::string core_of(std::string_view row, std::string_view execution = "execution_id");

/// The attempt_index of the current attempt of an execution, by the core row with this alias: of an active one the
/// greatest that holds a lease; where none does, or it is not active, the greatest. Null: it has no attempt. The
/// core's own attempt_index does not tell: FlowFabric's typed claims set it one higher than the attempt they lease.
///
/// Attempts are seen as the statement has seen them from its beginning. A core row that is locked must be
/// `as_seen`, too; then none was claimed since.
std::string current_attempt(std::string_view core);

/// A JOIN that keeps a locked core row with this alias only where it still is the very version that this statement
/// has seen from its beginning. Every claim, suspension and end writes the core row, so that the execution's
/// attempts, suspension and waitpoints are then those that the statement sees. A row that goes missing by it is met
/// again at a later look.
std::string as_seen(std::string_view core);

/// The attempt_index at which an execution that is given back is claimed next, by the core row with this alias
/// (`as_seen`): one that was interrupted continues its current attempt, any other starts what the core says.
std::string next_attempt(std::string_view core);

/// A JSON object to merge into a core's raw_fields when the execution is given back: FlowFabric's SDK claims at
/// the index that stands there, as text.
std::string attempt_count(std::string_view next_attempt);

/// "Somebody has been promised the execution of the row with this alias": an unexpired grant to reclaim it is out.
/// FlowFabric's reclaim asks only that the execution has not ended, so two workers would hold what is given to another.
/// It asks `clock`, which every statement has. A grant is written under a lock on the core row, but leaves that row as it
/// was: so `act` asks, and Reconciler::forbidden once more. A scan does not: like a lock, a promise holds a row that is
/// due, and whoever leaves it looks again soon.
std::string promised(std::string_view row);

/// "The execution is one that the scanner filter ($2, $3, $4) asks for", by the core row with this alias.
/// False for a core row that is missing (all null) as soon as the filter asks for anything.
std::string core_matches(std::string_view core);

/// The same for a core row that is missing.
std::string no_core_matches();

/// Two columns, name_space and instance_tag, as every event carries them, from the core row with this alias.
std::string event_origin(std::string_view core);

/// The value of a JSON expression where it is a whole number from 0 to 4294967295, else `otherwise`; never an
/// error.
std::string whole_number(std::string_view json, std::string_view otherwise = "0");

/// The uuid that a text expression spells, null where it spells none; never an error.
std::string uuid(std::string_view text);

/// The value of a JSON expression where it is an object, else an empty object; never an error.
std::string object(std::string_view json);

/// The core rows of runnable executions, found by ff_exec_core_lane_phase_idx, as something to select from: the lanes
/// of each partition one after the other, and of each those that are runnable. So what has ended costs nothing,
/// however much of it there is.
std::string runnable_by_lane();

/// "The row lies in the slice that is looked at", by its primary key, partition_key and this column, for a pair that
/// walks through the row's table.
std::string in_slice(std::string_view row, std::string_view key);

/// An INSERT that appends one event to the outbox `ff_completion_event` for each row of `source`, which has
/// the columns partition_key, execution_id, flow_id, now_ms, name_space and instance_tag.
std::string append_completion_events(std::string_view outcome, std::string_view source);

}  // namespace ff::reconcile::phrases
