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

/// An INSERT that appends one event to the outbox `ff_completion_event` for each row of `source`, which has
/// the columns partition_key, execution_id, flow_id, now_ms, name_space and instance_tag.
std::string append_completion_events(std::string_view outcome, std::string_view source);

}  // namespace ff::reconcile::phrases
