#pragma once

#include <string_view>

namespace ff::lease {

/// What can happen to a lease, as `ff_lease_event.event_type` spells it (spec: lease history; FlowFabric's
/// own names).
enum class EventType { acquired, renewed, expired, reclaimed, revoked };
std::string_view wire_name(EventType type);

/// Where the trigger of `ff_lease_event` announces each event.
inline constexpr const char* kChannel = "ff_lease_event";

/// The text of a fragment `lease_events(type, source)`: an INSERT that appends one event to the outbox `ff_lease_event`
/// for each row of `source`. It is the body of a common table expression of the very statement that changes the leases,
/// so that both commit together. The source has the columns partition_key, execution_id, now_ms, name_space and
/// instance_tag; where the execution has no core row the last two are null. The type is an expression. The lease_id
/// stays null: a lease here is named by execution, attempt and epoch.
inline constexpr std::string_view kAppendEvents =
    R"sql(INSERT INTO {schema}.ff_lease_event
    (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
  SELECT execution_id::text, {type}, now_ms, partition_key, name_space, instance_tag
    FROM {source})sql";

}  // namespace ff::lease
