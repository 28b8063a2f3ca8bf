#pragma once

#include <deque>

#include "lease/history.hpp"
#include "support/database.hpp"
#include "support/rows.hpp"

namespace ff::test {

/// A database with an outbox, and rows for it.
struct Outbox {
  Database database;
  pg::Connection db = database.connect();

  struct RowOf {
    int partition = 3;
    std::string type = "renewed";
    std::string execution = to_string(new_uuid());
    std::optional<std::string> name_space{};
    std::optional<std::string> instance_tag{};
    std::optional<std::string> lease_id{};
    std::int64_t at_ms = 1'700'000'000'000;
  };
  /// Returns the event's id.
  std::int64_t add(const RowOf& row) { return add(db, row); }
  static std::int64_t add(pg::Connection& connection, const RowOf& row) {
    return connection
        .execute(
            "INSERT INTO ff_lease_event (execution_id, lease_id, event_type, occurred_at_ms, partition_key,"
            " namespace, instance_tag) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING event_id",
            pg::Params::of(row.execution, row.lease_id, row.type, row.at_ms, row.partition, row.name_space,
                           row.instance_tag))
        .one()
        .get<std::int64_t>(0);
  }
  void add_many(int count, int partition = 3) {
    db.execute(
        "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
        " SELECT gen_random_uuid(), 'renewed', i, $2 FROM generate_series(1, $1) i",
        pg::Params::of(count, partition));
  }
  /// What was committed, by id; -1: in any partition.
  std::vector<std::int64_t> ids(int partition = -1) {
    std::vector<std::int64_t> all;
    for (const pg::Row& row : db.execute("SELECT event_id FROM ff_lease_event"
                                         " WHERE $1 IN (-1, partition_key) ORDER BY event_id",
                                         pg::Params::of(partition)))
      all.push_back(row.get<std::int64_t>(0));
    return all;
  }
};

inline std::string after(std::int64_t event_id) {
  return to_bytes(lease::Cursor{event_id});
}

inline SteadyTime in(Milliseconds time) {
  return Clock::system().now() + time;
}

/// The ids of the next events, notices left out; fewer than asked for when they do not come in time.
inline std::vector<std::int64_t> take(lease::Subscription& subscription, std::size_t count,
                                      Milliseconds at_most = Milliseconds{20'000}) {
  std::vector<std::int64_t> ids;
  const SteadyTime deadline = in(at_most);
  while (ids.size() < count) {
    const auto delivery = subscription.next(deadline);
    if (!delivery) break;
    if (const auto* event = std::get_if<lease::Event>(&*delivery))
      ids.push_back(occurrence(*event).cursor.event_id);
  }
  return ids;
}

/// The next notice of this kind, events left out.
template <class Notice>
std::optional<Notice> next_notice(lease::Subscription& subscription) {
  const SteadyTime deadline = in(Milliseconds{20'000});
  while (const auto delivery = subscription.next(deadline))
    if (const auto* notice = std::get_if<Notice>(&*delivery)) return *notice;
  return std::nullopt;
}

}  // namespace ff::test
