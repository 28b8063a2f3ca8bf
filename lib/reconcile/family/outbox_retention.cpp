// outbox_retention: events that are older than anybody will ask for are deleted. Off by default.
//
// Rows     ff_lease_event, and ff_completion_event once dispatched, older than `retention`. Neither has an
//          index by time; ids rise with time, so that the oldest thousand by id of each outbox and
//          partition are looked at, page after page. Those that a fast clock has dated in the future are passed over:
//          a thousand of them would hide all that is behind.
// Changes  the rows are deleted.
// Others   Subscribers read the same rows and never lock them; a cursor that points into what is deleted
//          goes on with the next event.
// Repeat   The rows are gone afterwards.

#include "reconcile/family/registry.hpp"
#include "reconcile/hold.hpp"

namespace ff::reconcile {
namespace {

// A plain `partition_key = mine.partition_key` would make the order that of event_id alone, and then the
// planner likes to read the index on that from its beginning, through the events of all other partitions.
constexpr std::string_view kScan = R"sql(
  SELECT mine.partition_key, e.outbox, e.event_id, e.due_at_ms
    FROM unnest({partitions}) AS mine(partition_key)
   CROSS JOIN LATERAL (
     (SELECT 'lease' AS outbox, l.event_id, l.occurred_at_ms AS due_at_ms
        FROM {schema}.ff_lease_event l
       WHERE l.partition_key = ANY(ARRAY[mine.partition_key::integer])
         AND l.occurred_at_ms <= (SELECT now_ms FROM clock)
       ORDER BY l.partition_key, l.event_id
       LIMIT 1000)
      UNION ALL
     (SELECT 'completion', c.event_id, c.occurred_at_ms
        FROM {schema}.ff_completion_event c
       WHERE {in_partitions:c} AND c.partition_key = ANY(ARRAY[mine.partition_key])
         AND c.dispatched_at_ms IS NOT NULL AND c.occurred_at_ms <= (SELECT now_ms FROM clock)
       ORDER BY c.partition_key, c.event_id
       LIMIT 1000)
   ) e)sql";

constexpr std::string_view kAct = R"sql(
old_lease_event AS MATERIALIZED (
  SELECT key.partition_key, key.outbox, l.event_id, l.occurred_at_ms AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_lease_event l ON l.event_id = key.event_id AND l.partition_key = key.partition_key
   WHERE key.outbox = 'lease' AND l.occurred_at_ms <= clock.due_ms
     FOR UPDATE OF l SKIP LOCKED
),
old_completion_event AS MATERIALIZED (
  SELECT key.partition_key, key.outbox, c.event_id, c.occurred_at_ms AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_completion_event c ON c.partition_key = key.partition_key AND c.event_id = key.event_id
   WHERE key.outbox = 'completion' AND {in_partitions:c} AND c.dispatched_at_ms IS NOT NULL
     AND c.occurred_at_ms <= clock.due_ms
     FOR UPDATE OF c SKIP LOCKED
),
deleted_lease_event AS (
  DELETE FROM {schema}.ff_lease_event l USING old_lease_event o WHERE l.event_id = o.event_id
),
deleted_completion_event AS (
  DELETE FROM {schema}.ff_completion_event c
   USING old_completion_event o
   WHERE {in_partitions:c} AND c.partition_key = o.partition_key AND c.event_id = o.event_id
),
moved AS (
  SELECT partition_key, outbox, event_id, due_at_ms, 'lease_events_deleted' AS outcome FROM old_lease_event
   UNION ALL
  SELECT partition_key, outbox, event_id, due_at_ms, 'completion_events_deleted' FROM old_completion_event
))sql";

}  // namespace

Reconciler outbox_retention() {
  using namespace std::chrono_literals;
  return {.name = "outbox_retention",
          .summary = "Deletes events that are older than anybody will ask for.",
          .outcomes = {{"lease_events_deleted", Effect::deleted, "the event was older than retention"},
                       {"completion_events_deleted", Effect::deleted, "the event was older than retention"}},
          .key = {{"outbox", "text"}, {"event_id", "bigint"}},
          .scan = kScan,
          .act = kAct,
          .privileges = {{"ff_lease_event", "SELECT, UPDATE, DELETE"},
                         {"ff_completion_event", "SELECT, UPDATE, DELETE"}},
          .on_by_default = false,
          .interval = 1min,
          .filterable = false,
          .settings = {{.name = "retention",
                        .kind = SettingDecl::Kind::duration,
                        .fallback = Milliseconds{24h * 7}.count(),
                        .least = Milliseconds{1h}.count(),
                        .most = Milliseconds{24h * 3650}.count(),
                        .summary = "how old an event gets"},
                       kHoldAbove},
          .holdoff = [](const Settings& own) { return Milliseconds{*own.at("retention")} + 1ms; }};
}

}  // namespace ff::reconcile
