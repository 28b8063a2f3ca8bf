// outbox_retention: events that are older than anybody will ask for are deleted. Off by default.
//
// Rows     ff_lease_event, and by companions ff_signal_event, ff_operator_event and ff_completion_event once dispatched,
//          older than `retention`; ff_worker_registry_event, a row a heartbeat, older than `worker_events_retention`. No
//          index goes by time; ids rise with it, so events are read along their ids, and those of the register worker by
//          worker. Clocks of hosts differ: an event dated in the future is as old as the youngest of the next three of its
//          partition that are not, and stays while there are fewer; one that is old stays behind a younger one, because its
//          own clock is behind. So the date of an event here is that of the youngest up to it. Completion events bear the
//          database's time; one whose end is dated more than an hour after it stays until the end is old as well, and holds
//          up no other: completion_repair would tell the end again. One of the register that is dated in the future stays
//          until then.
// Changes  the rows are deleted.
// Others   Subscribers read the same rows and never lock them; a cursor that points into what is deleted
//          goes on with the next event.
// Repeat   The rows are gone afterwards.

#include "reconcile/family/registry.hpp"
#include "reconcile/hold.hpp"

namespace ff::reconcile {
namespace {

using namespace std::chrono_literals;

// The events of the present and the past, one after the other, and before each those of the future that stand between.
// A plain `partition_key = mine.partition_key` (see `events_of`) would make the order that of event_id alone, and then the
// planner likes to read the index on that from its beginning, through the events of all other partitions.
constexpr std::string_view kPast = R"sql(
  SELECT mine.partition_key, e.event_id, e.due_at_ms
    FROM unnest({partitions}) AS mine(partition_key)
   CROSS JOIN LATERAL (
     WITH dated AS MATERIALIZED (
       SELECT p.event_id, {date:p} AS date_ms
         FROM {schema}.{outbox} p
        WHERE {events_of:p, mine} AND {in_page:p} AND {date:p} <= (SELECT now_ms FROM clock)
        ORDER BY p.partition_key, p.event_id
        LIMIT {page_rows} + 3
     ),
     past AS MATERIALIZED (
       SELECT event_id, lag(event_id, 1, 0::bigint) OVER by_id AS behind_id,
              greatest(max(date_ms) OVER by_id, {page_from}) AS due_at_ms,
              greatest(lead(date_ms) OVER by_id, date_ms) AS next_ms, lead(date_ms, 2) OVER by_id AS third_ms
         FROM dated
       WINDOW by_id AS (ORDER BY event_id)
     ),
     future AS MATERIALIZED (
     SELECT f.event_id, past.due_at_ms, past.event_id AS before_id, count(*) OVER (PARTITION BY past.event_id) AS shown
       FROM past
      CROSS JOIN LATERAL (
        SELECT n.event_id
          FROM {schema}.{outbox} n
         WHERE {events_of:n, mine} AND {in_page:n} AND {date:n} > (SELECT now_ms FROM clock)
           AND n.event_id > past.behind_id AND n.event_id < past.event_id
         ORDER BY n.partition_key, n.event_id
         LIMIT {page_rows}) f
      WHERE greatest(past.next_ms, past.third_ms) <= (SELECT due_ms FROM clock) AND past.third_ms IS NOT NULL
     )
     SELECT event_id, due_at_ms FROM future
      UNION ALL
     -- As long as there may be more of the future before them, they are needed to tell how old those are.
     SELECT event_id, due_at_ms
       FROM past
      WHERE event_id < coalesce((SELECT min(before_id) FROM future WHERE shown >= {page_rows}), 9223372036854775807)
   ) e)sql";

// Of a batch the last one of the future speaks for the others: what comes before it is old, or none of them was shown.
constexpr std::string_view kAct = R"sql(
partition AS MATERIALIZED (
  SELECT k.partition_key,
         (SELECT y.event_id
            FROM {schema}.{outbox} y
           WHERE {events_of:y, k} AND y.event_id < k.last_id
             AND {date:y} > (SELECT due_ms FROM clock) AND {date:y} <= (SELECT now_ms FROM clock)
           ORDER BY y.partition_key, y.event_id
           LIMIT 1) AS first_young_id
    FROM (SELECT partition_key, max(event_id) AS last_id FROM key GROUP BY partition_key) k
),
held AS MATERIALIZED (
  SELECT key.partition_key, e.event_id, {date:e} AS date_ms
    FROM clock, key
    JOIN {schema}.{outbox} e ON e.partition_key = key.partition_key AND e.event_id = key.event_id
   WHERE {event:e} AND ({date:e} + 0 <= clock.due_ms OR {date:e} + 0 > clock.now_ms)
     AND key.event_id < coalesce((SELECT p.first_young_id FROM partition p WHERE p.partition_key = key.partition_key),
                                 9223372036854775807)
     FOR UPDATE OF e SKIP LOCKED
),
passed AS MATERIALIZED (
  SELECT a.partition_key
    FROM (SELECT h.partition_key, max(h.event_id) AS last_id
            FROM clock, held h WHERE h.date_ms > clock.now_ms GROUP BY h.partition_key) a
   WHERE (SELECT count(*) = 3 AND max(three.date_ms) <= (SELECT due_ms FROM clock)
            FROM (SELECT {date:n} AS date_ms
                    FROM {schema}.{outbox} n
                   WHERE {events_of:n, a} AND n.event_id > a.last_id AND {date:n} <= (SELECT now_ms FROM clock)
                   ORDER BY n.partition_key, n.event_id
                   LIMIT 3) three)
),
old AS MATERIALIZED (
  SELECT h.partition_key, h.event_id, least(h.date_ms, clock.due_ms) AS due_at_ms
    FROM clock, held h
   WHERE h.date_ms <= clock.due_ms OR (h.partition_key IN (SELECT p.partition_key FROM passed p)) IS TRUE
),
deleted AS (
  DELETE FROM {schema}.{outbox} e
   USING old o
   WHERE {event:e} AND e.partition_key = o.partition_key AND e.event_id = o.event_id
),
moved AS (SELECT partition_key, event_id, due_at_ms, '{outcome}' AS outcome FROM old))sql";

// Worker by worker along the primary key, and of each its oldest.
constexpr std::string_view kRegisterScan = R"sql(
  SELECT w.partition_key, w.namespace, w.worker_instance_id, e.event_at_ms, e.event_kind, e.event_at_ms AS due_at_ms
    FROM (
      WITH RECURSIVE worker AS (
        SELECT p.partition_key, f.namespace, f.worker_instance_id
          FROM unnest({partitions}) AS p(partition_key)
         CROSS JOIN LATERAL (SELECT e.namespace, e.worker_instance_id
                               FROM {schema}.ff_worker_registry_event e
                              WHERE {in_partitions:e} AND e.partition_key = p.partition_key
                              ORDER BY e.namespace, e.worker_instance_id
                              LIMIT 1) f
         UNION ALL
        SELECT w.partition_key, n.namespace, n.worker_instance_id
          FROM worker w
         CROSS JOIN LATERAL (SELECT e.namespace, e.worker_instance_id
                               FROM {schema}.ff_worker_registry_event e
                              WHERE {in_partitions:e} AND e.partition_key = w.partition_key
                                AND (e.namespace, e.worker_instance_id) > (w.namespace, w.worker_instance_id)
                              ORDER BY e.namespace, e.worker_instance_id
                              LIMIT 1) n
      ),
      known AS MATERIALIZED (SELECT * FROM worker)
      SELECT * FROM known
    ) w
   CROSS JOIN LATERAL (
     SELECT e.event_at_ms, e.event_kind
       FROM {schema}.ff_worker_registry_event e
      WHERE {in_partitions:e} AND e.partition_key = w.partition_key AND e.namespace = w.namespace
        AND e.worker_instance_id = w.worker_instance_id AND {in_page:e}
      ORDER BY e.event_at_ms, e.event_kind
      LIMIT {page_rows} + 8
   ) e)sql";

constexpr std::string_view kRegisterAct = R"sql(
old AS MATERIALIZED (
  SELECT e.partition_key, e.namespace, e.worker_instance_id, e.event_at_ms, e.event_kind
    FROM clock, key
    JOIN {schema}.ff_worker_registry_event e
      ON e.partition_key = key.partition_key AND e.namespace = key.namespace
     AND e.worker_instance_id = key.worker_instance_id AND e.event_at_ms = key.event_at_ms
     AND e.event_kind = key.event_kind
   WHERE {in_partitions:e} AND e.event_at_ms + 0 <= clock.due_ms
     FOR UPDATE OF e SKIP LOCKED
),
deleted AS (
  DELETE FROM {schema}.ff_worker_registry_event e
   USING old o
   WHERE {in_partitions:e} AND e.partition_key = o.partition_key AND e.namespace = o.namespace
     AND e.worker_instance_id = o.worker_instance_id AND e.event_at_ms = o.event_at_ms AND e.event_kind = o.event_kind
),
moved AS (
  SELECT partition_key, namespace, worker_instance_id, event_at_ms, event_kind, event_at_ms AS due_at_ms,
         'worker_events_deleted' AS outcome
    FROM old
))sql";

constexpr const char* kReason = "the event was older than retention";

struct Outbox {
  const char* table;
  const char* outcome;
  const char* date = "occurred_at_ms";
  const char* event = "true";  ///< which of its rows are looked at
  /// Those of one partition. Here of a table for all partitions, whose key there is an integer.
  const char* events_of = "{event}.partition_key = ANY(ARRAY[{row}.partition_key::integer])";
};

// An event whose end is dated ahead is as if it were not there. Numeric: an hour more may be beyond the last moment.
constexpr Outbox kCompletions{
    .table = "ff_completion_event",
    .outcome = "completion_events_deleted",
    .date = "committed_at_ms",
    .event = R"sql({in_partitions:{event}} AND {event}.dispatched_at_ms IS NOT NULL
     AND {event}.occurred_at_ms <= greatest({event}.committed_at_ms + 3600000.0, (SELECT due_ms FROM clock)))sql",
    .events_of = "{event:{event}} AND {event}.partition_key = ANY(ARRAY[{row}.partition_key])"};

std::vector<Fragment> fragments(const Outbox& outbox) {
  return {{"along", "event_id"},
          {"past(outbox)", std::string(kPast)},
          {"outbox", outbox.table},
          {"outcome", outbox.outcome},
          {"date(event)", std::string("{event}.") + outbox.date},
          {"event(event)", outbox.event},
          {"events_of(event, row)", outbox.events_of}};
}

/// The pair of the lease events for another outbox.
Reconciler likewise(Reconciler pair, std::string_view scan, const Outbox& outbox) {
  pair.outcomes = {{outbox.outcome, Effect::deleted, kReason}};
  pair.scan = scan;
  pair.fragments = fragments(outbox);
  return pair;
}

Reconciler of_register(Reconciler pair) {
  pair.outcomes = {
      {"worker_events_deleted", Effect::deleted, "the event was older than worker_events_retention"}};
  pair.key = {{"namespace", "text"},
              {"worker_instance_id", "text"},
              {"event_at_ms", "bigint"},
              {"event_kind", "text"}};
  pair.partition_count = "SELECT 256";
  pair.scan = kRegisterScan;
  pair.act = kRegisterAct;
  pair.fragments = {{"along", "event_at_ms"}};
  pair.holdoff = [](const Settings& own) { return Milliseconds{*own.at("worker_events_retention")} + 1ms; };
  return pair;
}

SettingDecl age(std::string_view name, Milliseconds fallback, std::string_view summary) {
  return {.name = name,
          .kind = SettingDecl::Kind::duration,
          .fallback = fallback.count(),
          .least = Milliseconds{1h}.count(),
          .most = Milliseconds{24h * 3650}.count(),
          .summary = summary};
}

}  // namespace

Reconciler outbox_retention() {
  const Outbox leases{"ff_lease_event", "lease_events_deleted"};
  Reconciler lease{
      .name = "outbox_retention",
      .summary = "Deletes events that are older than anybody will ask for.",
      .outcomes = {{leases.outcome, Effect::deleted, kReason}},
      .key = {{"event_id", "bigint"}},
      .scan = "{past:ff_lease_event}",
      .act = kAct,
      .fragments = fragments(leases),
      .privileges = {{"ff_lease_event", "SELECT, UPDATE, DELETE"},
                     {"ff_signal_event", "SELECT, UPDATE, DELETE"},
                     {"ff_operator_event", "SELECT, UPDATE, DELETE"},
                     {"ff_completion_event", "SELECT, UPDATE, DELETE"},
                     {"ff_worker_registry_event", "SELECT, UPDATE, DELETE"}},
      .on_by_default = false,
      .interval = 1min,
      .filterable = false,
      .settings = {age("retention", 24h * 7, "how old an event gets"),
                   age("worker_events_retention", 24h, "how old an event of the worker register gets"),
                   kHoldAbove},
      .holdoff = [](const Settings& own) { return Milliseconds{*own.at("retention")} + 1ms; }};
  lease.companions = {
      likewise(lease, "{past:ff_signal_event}",
               {"ff_signal_event", "signal_events_deleted", "delivered_at_ms"}),
      likewise(lease, "{past:ff_operator_event}", {"ff_operator_event", "operator_events_deleted"}),
      likewise(lease, "{past:ff_completion_event}", kCompletions), of_register(lease)};
  return lease;
}

}  // namespace ff::reconcile
