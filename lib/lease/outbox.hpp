#pragma once

#include <string>
#include <string_view>

namespace ff::lease {

/// What can happen to a lease, as `ff_lease_event.event_type` spells it (spec: lease history; FlowFabric's
/// own names).
enum class EventType { acquired, renewed, expired, reclaimed, revoked };
std::string_view wire_name(EventType type);

/// An INSERT that appends one event to the outbox `ff_lease_event` for each row of `source`: the body of a
/// common table expression of the very statement that changes the leases, so that both commit together. The
/// source has the columns partition_key, execution_id, now_ms, name_space and instance_tag; where the
/// execution has no core row the last two are null. The lease_id stays null: a lease here is named by
/// execution, attempt and epoch.
std::string append_events(EventType type, std::string_view source);

}  // namespace ff::lease
