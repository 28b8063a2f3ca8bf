#include "lease/outbox_reader.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace ff::lease {
namespace {

// $1: above which event id a mark is needed.
constexpr std::string_view kLook = R"sql(
SELECT newest,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       CASE WHEN newest > $1 THEN pg_current_xact_id()::text::bigint END
  FROM (SELECT coalesce(max(event_id), 0) AS newest FROM ff_lease_event) AS outbox)sql";

// $1, $2: partition and event id of each stretch; $3: the last event id that may be read; $4: rows of a
// stretch. Compared as pairs, because that leaves the index on (partition_key, event_id) alone to give the
// order: with two separate conditions the planner takes the primary key and walks through the events of all
// partitions to find those of one.
constexpr std::string_view kReadPartitions = R"sql(
SELECT stretch.position, event.event_id, event.partition_key, event.execution_id, event.lease_id,
       event.event_type, event.occurred_at_ms, event.namespace, event.instance_tag
  FROM unnest($1, $2) WITH ORDINALITY AS stretch (partition_key, after, position)
 CROSS JOIN LATERAL (
       SELECT * FROM ff_lease_event
        WHERE (partition_key, event_id) > (stretch.partition_key::integer, stretch.after)
          AND (partition_key, event_id) <= (stretch.partition_key::integer, $3)
        ORDER BY partition_key, event_id LIMIT $4) AS event
 ORDER BY stretch.position, event.event_id)sql";

// $1: event id, $2: the last event id that may be read, $3: rows.
constexpr std::string_view kReadAll = R"sql(
SELECT 1, event_id, partition_key, execution_id, lease_id, event_type, occurred_at_ms, namespace, instance_tag
  FROM ff_lease_event
 WHERE event_id > $1 AND event_id <= $2
 ORDER BY event_id LIMIT $3)sql";

// $1: the transaction's id. A prepared transaction has no session any more.
constexpr std::string_view kTransaction = R"sql(
SELECT pid, application_name, datname, state, extract(epoch FROM clock_timestamp() - xact_start)::float8
  FROM pg_stat_activity WHERE backend_xid = $1::text::xid8::xid
UNION ALL
SELECT NULL, gid, database, 'prepared', extract(epoch FROM clock_timestamp() - prepared)::float8
  FROM pg_prepared_xacts WHERE transaction = $1::text::xid8::xid
LIMIT 1)sql";

constexpr std::string_view kStock = R"sql(
SELECT coalesce(max(seqcache), 1) > 1 FROM pg_sequence
 WHERE seqrelid = pg_get_serial_sequence('ff_lease_event', 'event_id')::regclass)sql";

// Stretches in one statement: bounds what a single answer can weigh.
constexpr std::size_t kMostStretches = 32;

OutboxRow outbox_row(const pg::Row& row) {
  return {row.get<std::int64_t>(1),
          row.get<std::int32_t>(2),
          row.get<std::string>(3),
          row.get<std::optional<std::string>>(4),
          row.get<std::string>(5),
          row.get<std::int64_t>(6),
          row.get<std::optional<std::string>>(7),
          row.get<std::optional<std::string>>(8)};
}

}  // namespace

Sighting look(pg::Connection& connection, std::int64_t marks_above) {
  const pg::Result result = connection.execute(kLook, pg::Params::of(marks_above));
  const pg::Row row = result.one();
  return {row.get<std::int64_t>(0), row.get<std::int64_t>(1), row.get<std::optional<std::int64_t>>(2)};
}

std::vector<std::vector<OutboxRow>> read(pg::Connection& connection, const std::vector<Stretch>& stretches,
                                         std::int64_t up_to, std::int64_t most) {
  std::vector<std::vector<OutboxRow>> rows(stretches.size());
  std::vector<std::size_t> of_partitions;  // positions in `stretches`
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    if (stretches[i].partition) {
      of_partitions.push_back(i);
      continue;
    }
    const auto params = pg::Params::of(stretches[i].after, up_to, most);
    for (const pg::Row& row : connection.execute(kReadAll, params)) rows[i].push_back(outbox_row(row));
  }
  for (std::size_t first = 0; first < of_partitions.size(); first += kMostStretches) {
    const std::size_t last = std::min(first + kMostStretches, of_partitions.size());
    std::vector<std::int64_t> partitions, after;
    for (std::size_t i = first; i < last; ++i) {
      partitions.push_back(stretches[of_partitions[i]].partition->value);
      after.push_back(stretches[of_partitions[i]].after);
    }
    const auto params = pg::Params::of(partitions, after, up_to, most);
    for (const pg::Row& row : connection.execute(kReadPartitions, params)) {
      const auto position = static_cast<std::size_t>(row.get<std::int64_t>(0)) - 1;
      rows[of_partitions[first + position]].push_back(outbox_row(row));
    }
  }
  return rows;
}

std::string describe_transaction(pg::Connection& connection, std::int64_t transaction) {
  const pg::Result result = connection.execute(kTransaction, pg::Params::of(std::to_string(transaction)));
  std::string text = fmt::format("transaction {}", transaction);
  if (result.empty()) return text + " (which ends just now)";
  const pg::Row row = result.one();
  const auto words = [&](int column) { return row.get<std::optional<std::string>>(column).value_or("?"); };
  const auto pid = row.get<std::optional<std::int32_t>>(0);
  text += pid ? fmt::format(" of pid {} (application_name {}, database {}, {}", *pid, words(1), words(2),
                            words(3))
              : fmt::format(" (prepared as {} in database {}", words(1), words(2));
  if (const auto age = row.get<std::optional<double>>(4)) text += fmt::format(", {:.0f} s old", *age);
  return text + ')';
}

bool ids_are_stocked(pg::Connection& connection) {
  return connection.execute(kStock).one().get<bool>(0);
}

}  // namespace ff::lease
