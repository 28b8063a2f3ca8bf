#pragma once

#include <algorithm>

#include "support/engine.hpp"

namespace ff::test {

/// Ends every execution with a deadline, as its raw_fields say: attempt_outcome, and `spare` for one
/// that is doomed and then is not ended after all.
inline reconcile::Reconciler ender() {
  return {.name = "ender",
          .summary = "Ends what a test wants ended.",
          .outcomes = {"ended"},
          .key = {{"execution_id", "uuid"}},
          .execution_column = "execution_id",
          .scan = R"sql(
  SELECT c.partition_key, c.execution_id, c.deadline_at_ms AS due_at_ms
    FROM {schema}.ff_exec_core c
   WHERE {in_partitions:c} AND c.deadline_at_ms IS NOT NULL)sql",
          .act = R"sql(
doomed AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, c.flow_id, 1234567 AS now_ms,
         {current_attempt:c} AS attempt_index,
         'space' AS name_space, 'tag' AS instance_tag, 'cancelled' AS public_state,
         'cancelled' AS attempt_state, c.raw_fields->>'attempt_outcome' AS attempt_outcome,
         'revoked' AS lease_event,
         'why' AS cancellation_reason, 'who' AS cancelled_by,
         '{"patched": {"by": "ender"}}'::jsonb AS raw_patch,
         coalesce((c.raw_fields->>'spare')::boolean, false) AS spare, c.deadline_at_ms AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_exec_core c ON c.partition_key = key.partition_key AND c.execution_id = key.execution_id
    {as_seen:c}
   WHERE {in_partitions:c} AND c.deadline_at_ms <= clock.due_ms
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
{hold_doomed},
ending AS MATERIALIZED (SELECT * FROM endable WHERE NOT spare),
{end_executions},
moved AS (SELECT partition_key, execution_id, due_at_ms, 'ended' AS outcome FROM ending))sql",
          .interval = Milliseconds{1000}};
}

/// An execution with all that can belong to one, and others that look like it.
struct EndingStage {
  Database database;
  pg::Connection db = database.connect();
  const reconcile::Reconciler reconciler = ender();

  /// An execution to be ended, with a suspension and two waitpoints. It was claimed at 2, below a dead attempt, as a
  /// typed claim does it; without a lease its current attempt is 3.
  Uuid add(const Json& raw_fields, std::optional<std::int64_t> lease_expires_at_ms = 5, int partition = 3) {
    const Uuid id = new_uuid();
    add_parts(id, partition, lease_expires_at_ms);
    return insert_core(db, {.partition = {static_cast<std::int16_t>(partition)},
                            .execution = id,
                            .flow = new_uuid(),
                            .attempt_index = 3,
                            .priority = 7,
                            .deadline_at_ms = 1000,
                            .policy = max_retries(3),
                            .raw_fields = raw_fields});
  }
  void add_parts(const Uuid& id, int partition_key, std::optional<std::int64_t> lease_expires_at_ms) {
    const PartitionKey partition{static_cast<std::int16_t>(partition_key)};
    for (int index : {1, 2, 3})
      insert_attempt(db, {.partition = partition,
                          .execution = id,
                          .attempt_index = index,
                          .lease_epoch = 40 + index,
                          .lease_expires_at_ms = index == 2 ? lease_expires_at_ms : std::nullopt,
                          .outcome = "retry",
                          .raw_fields = {{"note", index}}});
    insert_suspension(db, {.partition = partition, .execution = id, .timeout_at_ms = 9});
    insert_waitpoint(db, {.partition = partition, .execution = id, .expires_at_ms = 9});
    insert_waitpoint(db, {.partition = partition, .execution = id, .waitpoint_key = "k"});
  }
  /// The same numbers in the next partition, and another execution in this one.
  std::vector<std::string> add_bystanders(const Uuid& twin) {
    insert_core(db, {.partition = {4}, .execution = twin, .attempt_index = 2});
    add_parts(twin, 4, 5);
    const Uuid neighbour = insert_core(db, {.partition = {3}, .attempt_index = 2});
    add_parts(neighbour, 3, 5);
    return snapshot(db);
  }
  Json own_core(const Uuid& id) {
    return row(db, "SELECT * FROM ff_exec_core WHERE partition_key = 3 AND execution_id = $1",
               pg::Params::of(id));
  }
  Json own_attempt(const Uuid& id, int index = 2) {
    return row(
        db, "SELECT * FROM ff_attempt WHERE partition_key = 3 AND execution_id = $1 AND attempt_index = $2",
        pg::Params::of(id, index));
  }
  reconcile::TickReport tick() {
    EngineFixture engine(database, reconciler);
    reconcile::TickReport report = engine->tick();
    CHECK_FALSE(report.failure);
    CHECK(report.error_count() == 0);
    return report;
  }
};

inline Json lease_event(const Uuid& id) {
  return {{"partition_key", 3},        {"execution_id", to_string(id)}, {"event_type", "revoked"},
          {"occurred_at_ms", 1234567}, {"namespace", "space"},          {"instance_tag", "tag"},
          {"lease_id", nullptr}};
}

inline std::size_t lines_of(const std::vector<std::string>& lines, std::string_view beginning) {
  return static_cast<std::size_t>(std::count_if(
      lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with(beginning); }));
}

}  // namespace ff::test
