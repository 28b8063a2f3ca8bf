#include "lease/outbox_reader.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace ff::lease {
namespace {

constexpr std::string_view kMeans = R"sql(
SELECT has_table_privilege('pg_catalog.pg_locks', 'SELECT')
         AND has_function_privilege('pg_catalog.pg_lock_status()', 'EXECUTE'),
       CASE WHEN has_sequence_privilege(name, 'USAGE, SELECT') THEN name END,
       coalesce((SELECT seqcache > 1 FROM pg_sequence WHERE seqrelid = name::regclass), false)
  FROM pg_get_serial_sequence({schema_text} || 'ff_lease_event', 'event_id') AS name)sql";

// $1: the id whose event is asked for; $2: the sequence, or null.
constexpr std::string_view kReadHead = R"sql(
WITH outbox AS NOT MATERIALIZED (
  SELECT event_id, hashtextextended(concat_ws(' ', execution_id, event_type, occurred_at_ms), 0) AS hash
    FROM {schema}.ff_lease_event)
SELECT pg_is_in_recovery(), newest.event_id, newest.hash,
       (SELECT hash FROM outbox WHERE event_id = $1),
       CASE WHEN has_sequence_privilege($2, 'USAGE, SELECT')
            THEN coalesce(pg_sequence_last_value($2::regclass), 0) END
  FROM (VALUES (1)) AS always
  LEFT JOIN (SELECT * FROM outbox ORDER BY event_id DESC LIMIT 1) AS newest ON true)sql";

// INSERT takes this lock before it draws an id, and every transaction, prepared or not, gives it back after it
// has ended for everybody else.
const std::string kWritersLocks = R"sql(
  FROM pg_catalog.pg_locks AS held
 WHERE held.locktype = 'relation' AND held.mode = 'RowExclusiveLock' AND held.granted
   AND held.relation = to_regclass({schema_text} || 'ff_lease_event')
   AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database()))sql";

const std::string kWriters = "SELECT DISTINCT held.virtualtransaction" + kWritersLocks;

// $1: whether a mark is wanted (which costs a transaction id).
constexpr std::string_view kMarks = R"sql(
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       CASE WHEN $1 THEN pg_current_xact_id()::text::bigint END)sql";

// $1, $2: the ids behind the first and up to the second. What follows the last one stands for an event, so that the
// ids before it are told of, too.
constexpr std::string_view kAbsent = R"sql(
SELECT before + 1, event_id - 1
  FROM (SELECT event_id, lag(event_id, 1, $1) OVER (ORDER BY event_id) AS before
          FROM (SELECT event_id FROM {schema}.ff_lease_event WHERE event_id > $1 AND event_id <= $2
                UNION ALL SELECT $2 + 1) AS there) AS pair
 WHERE event_id - before > 1
 ORDER BY event_id)sql";

// $1, $2: partition and event id of each stretch; $3: the last event id that may be read; $4: rows of a
// stretch. Compared as pairs, because that leaves the index on (partition_key, event_id) alone to give the
// order: with two separate conditions the planner takes the primary key and walks through the events of all
// partitions to find those of one.
constexpr std::string_view kReadPartitions = R"sql(
SELECT stretch.position, event.event_id, event.partition_key, event.execution_id, event.lease_id,
       event.event_type, event.occurred_at_ms, event.namespace, event.instance_tag
  FROM unnest($1, $2) WITH ORDINALITY AS stretch (partition_key, after, position)
 CROSS JOIN LATERAL (
       SELECT * FROM {schema}.ff_lease_event
        WHERE (partition_key, event_id) > (stretch.partition_key::integer, stretch.after)
          AND (partition_key, event_id) <= (stretch.partition_key::integer, $3)
        ORDER BY partition_key, event_id LIMIT $4) AS event
 ORDER BY stretch.position, event.event_id)sql";

// $1: event id, $2: the last event id that may be read, $3: rows.
constexpr std::string_view kReadAll = R"sql(
SELECT 1, event_id, partition_key, execution_id, lease_id, event_type, occurred_at_ms, namespace, instance_tag
  FROM {schema}.ff_lease_event
 WHERE event_id > $1 AND event_id <= $2
 ORDER BY event_id LIMIT $3)sql";

// $1: the writers. State and age of foreign sessions show only to who may read all statistics. A prepared
// transaction has no session any more; it is found by its id, which it holds locked.
const std::string kOldestWriter = R"sql(
SELECT writer.id, session.pid, coalesce(prepared.gid, session.application_name),
       coalesce(prepared.database, session.datname), session.state,
       extract(epoch FROM clock_timestamp() - coalesce(prepared.prepared, session.xact_start))::float8 AS age
  FROM (SELECT held.virtualtransaction AS id, held.pid)sql" +
                                  kWritersLocks + R"sql(
           AND held.virtualtransaction = ANY($1)) AS writer
  LEFT JOIN pg_stat_activity AS session USING (pid)
  LEFT JOIN pg_prepared_xacts AS prepared ON writer.pid IS NULL AND prepared.transaction IN (
            SELECT own.transactionid FROM pg_catalog.pg_locks AS own WHERE own.virtualtransaction = writer.id)
 ORDER BY age DESC NULLS LAST LIMIT 1)sql";

constexpr std::string_view kOldestWithId = R"sql(
WITH oldest AS (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS id)
SELECT id::text, pid, application_name, datname, state,
       extract(epoch FROM clock_timestamp() - xact_start)::float8
  FROM oldest JOIN pg_stat_activity ON backend_xid = id::xid
UNION ALL
SELECT id::text, NULL, gid, database, NULL, extract(epoch FROM clock_timestamp() - prepared)::float8
  FROM oldest JOIN pg_prepared_xacts ON transaction = id::xid
LIMIT 1)sql";

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

std::string description(const pg::Result& result) {
  if (result.empty()) return "a transaction (one that has just ended, or may not be seen)";
  const pg::Row row = result.one();
  const auto words = [&](int column) { return row.get<std::optional<std::string>>(column).value_or("?"); };
  const auto pid = row.get<std::optional<std::int32_t>>(1);
  std::string text = "transaction " + words(0);
  text += pid ? fmt::format(" of pid {} (application_name {}, database {}, {}", *pid, words(2), words(3),
                            words(4))
              : fmt::format(" (prepared as {} in database {}", words(2), words(3));
  if (const auto age = row.get<std::optional<double>>(5)) text += fmt::format(", {:.0f} s old", *age);
  return text + ')';
}

}  // namespace

Means means(pg::Connection& connection) {
  const pg::Result result = connection.execute(kMeans);
  const pg::Row row = result.one();
  return {row.get<bool>(0), row.get<std::optional<std::string>>(1), row.get<bool>(2)};
}

OutboxHead read_head(pg::Connection& connection, const Means& means, std::int64_t known) {
  const pg::Result result = connection.execute(kReadHead, pg::Params::of(known, means.sequence));
  const pg::Row row = result.one();
  if (row.get<bool>(0))
    throw pg::Error(
        pg::Error::Kind::not_writable,
        connection.description() +
            " is a standby, which does not know who is writing: lease events are read on the primary");
  const auto number = [&](int column) { return row.get<std::optional<std::int64_t>>(column); };
  return {{number(1).value_or(0), number(2).value_or(0)}, number(3), number(4)};
}

Writers read_writers(pg::Connection& connection) {
  Writers writers;
  for (const pg::Row& row : connection.execute(kWriters)) writers.insert(row.get<std::string>(0));
  return writers;
}

Writers read_marks(pg::Connection& connection, const Writers& awaited, bool mark) {
  const pg::Result result = connection.execute(kMarks, pg::Params::of(mark));
  const pg::Row row = result.one();
  const auto oldest_open = row.get<std::int64_t>(0);
  Writers marks;
  for (const std::string& each : awaited)
    if (std::stoll(each) > oldest_open) marks.insert(each);
  const auto taken = row.get<std::optional<std::int64_t>>(1);
  if (taken && *taken > oldest_open) marks.insert(std::to_string(*taken));
  return marks;
}

std::vector<IdRange> read_absent(pg::Connection& connection, std::int64_t after, std::int64_t up_to) {
  std::vector<IdRange> absent;
  for (const pg::Row& row : connection.execute(kAbsent, pg::Params::of(after, up_to)))
    absent.push_back({row.get<std::int64_t>(0), row.get<std::int64_t>(1)});
  return absent;
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

std::string describe_oldest(pg::Connection& connection, const Means& means, const Writers& writers) {
  const std::vector<std::string> names(writers.begin(), writers.end());
  return description(means.locks ? connection.execute(kOldestWriter, pg::Params::of(names))
                                 : connection.execute(kOldestWithId));
}

}  // namespace ff::lease
