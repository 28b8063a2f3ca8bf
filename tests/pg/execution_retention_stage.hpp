#pragma once

#include "pg/transaction.hpp"
#include "support/spans.hpp"
#include "support/still_stage.hpp"

/// What has ended, and whole flows, of some age.
namespace ff::test::retention {

constexpr std::int64_t kAge = 30 * kDay;
constexpr std::int64_t kOld = kNow - kAge - 1;  // just old enough
constexpr PartitionKey kThree{3};

inline const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("execution_retention");
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  /// One that ended at this moment, with something in each table that is found by it.
  Uuid add_ended(std::int64_t at, const std::optional<Uuid>& flow = {}, const std::string& name_space = "a",
                 const std::string& phase = "terminal") {
    const Uuid id = new_uuid();
    db.execute(
        "INSERT INTO ff_exec_core (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, "
        "ownership_state,"
        "  eligibility_state, public_state, attempt_state, created_at_ms, terminal_at_ms, raw_fields)"
        " VALUES (3, $1, $2, 'default', $3, 'unowned', 'not_applicable', 'completed', 'attempt_terminal', "
        "$4, $4,"
        "  jsonb_build_object('namespace', $5::text))",
        pg::Params::of(id, flow, phase, at, name_space));
    db.execute(
        "INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, started_at_ms) VALUES (3, $1, "
        "0, $2)",
        pg::Params::of(id, at));
    db.execute(
        "INSERT INTO ff_completion_event (partition_key, execution_id, outcome, occurred_at_ms, "
        "committed_at_ms,"
        "  dispatched_at_ms) VALUES (3, $1, 'success', $2, $2, $2)",
        pg::Params::of(id, at));
    add_frames(id, 2);
    db.execute("INSERT INTO ff_stream_meta (partition_key, execution_id, attempt_index) VALUES (3, $1, 0)",
               pg::Params::of(id));
    return id;
  }
  void add_frames(const Uuid& id, int count) {
    db.execute(
        "INSERT INTO ff_stream_frame (partition_key, execution_id, attempt_index, ts_ms, seq, fields, mode, "
        "created_at_ms)"
        " SELECT 3, $1, 0, i, 1, '{}', 'durable', 1 FROM generate_series(1, $2) i",
        pg::Params::of(id, count));
  }
  Uuid add_flow(std::int64_t at) {
    const Uuid flow = new_uuid();
    db.execute(
        "INSERT INTO ff_flow_core (partition_key, flow_id, public_flow_state, created_at_ms, raw_fields)"
        " VALUES (3, $1, 'open', $2, jsonb_build_object('last_mutation_at_ms', $2::bigint))",
        pg::Params::of(flow, at));
    return flow;
  }
  void add_edge(const Uuid& flow, const Uuid& upstream, const Uuid& downstream) {
    db.execute(
        "INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy)"
        " VALUES (3, $1, gen_random_uuid(), $2, $3, '{}')",
        pg::Params::of(flow, upstream, downstream));
    db.execute(
        "INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy) VALUES (3, $1, $2, '{}')"
        " ON CONFLICT DO NOTHING",
        pg::Params::of(flow, downstream));
  }
  /// How many rows of all these tables are there.
  std::int64_t left() {
    std::int64_t rows = 0;
    for (const char* table :
         {"ff_exec_core", "ff_flow_core", "ff_attempt", "ff_stream_frame", "ff_stream_meta",
          "ff_stream_summary", "ff_completion_event", "ff_edge", "ff_edge_group", "ff_pending_cancel_groups",
          "ff_claim_grant", "ff_waitpoint_pending", "ff_suspension_current", "ff_cancel_backlog_member",
          "ff_flow_summary"})
      rows += number(db, "SELECT count(*) FROM " + std::string(table));
    return rows;
  }
  /// A flow of so many members that have ended, with nothing else.
  Uuid add_large_flow(int members) {
    const Uuid flow = add_flow(kOld);
    db.execute(
        "INSERT INTO ff_exec_core (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, "
        "ownership_state,"
        "  eligibility_state, public_state, attempt_state, created_at_ms, terminal_at_ms)"
        " SELECT 3, gen_random_uuid(), $1, 'default', 'terminal', 'unowned', 'not_applicable', 'completed',"
        "  'attempt_terminal', 1, 1 FROM generate_series(1, $2) i",
        pg::Params::of(flow, members));
    add_edge(flow, new_uuid(), new_uuid());
    return flow;
  }
  bool is_there(const Uuid& execution) {
    return number(db, "SELECT count(*) FROM ff_exec_core WHERE execution_id = $1",
                  pg::Params::of(execution)) == 1;
  }
  void set(const std::string& what, const Uuid& execution) {
    db.execute("UPDATE ff_exec_core SET " + what + " WHERE execution_id = $1", pg::Params::of(execution));
  }
};

}  // namespace ff::test::retention
