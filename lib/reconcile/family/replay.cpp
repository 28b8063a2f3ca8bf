#include "reconcile/family/replay.hpp"

#include "reconcile/with.hpp"

namespace ff::reconcile::replay {
namespace {

// No index finds operators' events by the execution, and of a flow of ten thousand all may have been replayed: those of
// all partitions are read once, as soon as the first row was replayed, and the last of each execution is looked up. Where
// retention has deleted the event, the last change that FlowFabric has noted stands for it.
constexpr std::string_view kReplayedAt =
    R"sql((CASE WHEN {core}.raw_fields->>'replay_count' IS NOT NULL THEN coalesce(
          ((SELECT jsonb_object_agg(concat_ws(':', o.partition_key, o.execution_id), o.occurred_at_ms ORDER BY o.event_id)
              FROM {schema}.ff_operator_event o
             WHERE o.partition_key = ANY ({partitions}) AND o.event_type = 'replayed')
            ->> concat_ws(':', {core}.partition_key, {core}.execution_id))::bigint,
          {moment:{core}.raw_fields->>'last_mutation_at'}) END))sql";

// One run is told of once, whatever moment stands in the row by now: a worker's cancel dates anew what an operator has
// cancelled, and a signal may revive it. Who was replayed has events of former runs. Two hosts' clocks date the end and
// the replay: either is enough, and a doubt counts as told.
constexpr std::string_view kTellsEnd =
    R"sql(({event}.outcome <> 'resumable'
     AND ({core}.raw_fields->>'replay_count' IS NULL OR {event}.occurred_at_ms >= {core}.terminal_at_ms
          OR {event}.committed_at_ms > {replayed_at:{core}})))sql";

// By ff_completion_event_lookup_idx. Not the first of an order: the planner might walk the whole outbox backwards.
constexpr std::string_view kToldEnd =
    R"sql((SELECT (array_agg(v.outcome ORDER BY v.event_id DESC))[1]
            FROM {schema}.ff_completion_event v
           WHERE {in_partitions:v} AND {same_execution:v, {core}}
             AND {tells_end:v, {core}}))sql";

constexpr std::string_view kWordOfEnd =
    R"sql((CASE WHEN {core}.lifecycle_phase = 'cancelled' OR {core}.public_state = 'cancelled' THEN 'cancelled'
          ELSE coalesce(
            (SELECT i.outcome
               FROM {schema}.ff_attempt i
              WHERE {in_partitions:i} AND {same_execution:i, {core}} AND i.outcome IN ('success', 'failed')
                AND (i.terminal_at_ms = {core}.terminal_at_ms OR i.attempt_index = {current_attempt:{core}})
              ORDER BY i.terminal_at_ms IS NOT DISTINCT FROM {core}.terminal_at_ms DESC, i.attempt_index DESC
              LIMIT 1),
            CASE WHEN {core}.public_state = 'completed' THEN 'success'
                 WHEN {core}.public_state IN ('expired', 'skipped', 'failed') THEN {core}.public_state END) END))sql";

}  // namespace

std::vector<Fragment> phrases() {
  return {{"replayed_at(core)", std::string(kReplayedAt)},
          {"tells_end(event, core)", std::string(kTellsEnd)},
          {"told_end(core)", std::string(kToldEnd)},
          {"word_of_end(core)", std::string(kWordOfEnd)}};
}

std::vector<Privileges> privileges(const std::vector<Privileges>& beside) {
  return with<Privileges>(
      {{"ff_operator_event", "SELECT"}, {"ff_completion_event", "SELECT"}, {"ff_attempt", "SELECT"}}, beside);
}

}  // namespace ff::reconcile::replay
