// dependency, its companion: who waits for children that have all ended before it began to wait.
//
// Rows     ff_exec_core that waits for its children, with an edge group of which nobody is running and somebody has
//          been counted. No index leads to them, so the runnable executions of each lane are looked through, more
//          seldom than events. Such a row is due since it was made: nothing tells when it began to wait.
// Changes  the core row: eligible_now, waiting, at the attempt that it continues. No event: no lease and no ending is
//          involved.
// Others   The event of a child that ends later wakes it as well (dependency), whoever comes first. An edge that is
//          applied meanwhile is in the counts of the group, which is locked and looked at again.
// Repeat   Afterwards the row does not wait any more, so it is not found again.

#include "reconcile/waiting_children.hpp"

#include "reconcile/phrases.hpp"

namespace ff::reconcile::waiting_children {
namespace {

const std::string kNobodyIsLeft = "g.running_count = 0 AND g.success_count + g.fail_count + g.skip_count > 0";

const std::string kScan = R"sql(
  SELECT c.partition_key, c.execution_id, c.created_at_ms AS due_at_ms
    FROM )sql" + phrases::runnable_by_lane() +
                          R"sql( c
    -- Looked up by its key, execution by execution: see phrases::core_of.
    JOIN LATERAL (SELECT *
                    FROM ff_edge_group g
                   WHERE g.partition_key = ANY($1) AND g.partition_key = c.partition_key AND g.flow_id = c.flow_id
                     AND g.downstream_eid = c.execution_id
                  OFFSET 0) g ON true
   WHERE )sql" + kNobodyIsLeft +
                          " AND " + condition("c") + " AND " + phrases::core_matches("c");

const std::string kAct = R"sql(
waited AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, c.created_at_ms AS due_at_ms
    FROM clock, key
    JOIN ff_exec_core c ON c.partition_key = key.partition_key AND c.execution_id = key.execution_id
    )sql" + phrases::as_seen("c") +
                         R"sql(
    JOIN ff_edge_group g ON g.partition_key = c.partition_key AND g.flow_id = c.flow_id
                        AND g.downstream_eid = c.execution_id
   WHERE c.partition_key = ANY($1) AND g.partition_key = ANY($1) AND c.created_at_ms + 0 <= clock.due_ms
     AND c.lifecycle_phase = 'runnable' AND )sql" +
                         kNobodyIsLeft + " AND " + condition("c") + " AND " + phrases::core_matches("c") +
                         R"sql(
     FOR NO KEY UPDATE OF c, g SKIP LOCKED
),
eligible AS (
  UPDATE ff_exec_core c
     SET )sql" + made_eligible() +
                         R"sql(
    FROM waited w
   WHERE c.partition_key = ANY($1) AND c.partition_key = w.partition_key AND c.execution_id = w.execution_id
),
moved AS (SELECT partition_key, execution_id, due_at_ms, 'woken' AS outcome FROM waited))sql";

}  // namespace

std::string condition(std::string_view core) {
  const std::string c(core);
  return c + ".eligibility_state = 'blocked_by_dependencies' AND " + c +
         ".blocking_reason = 'waiting_for_children'";
}

std::string made_eligible() {
  return "eligibility_state = 'eligible_now', public_state = 'waiting',\n"
         "         attempt_index = " +
         phrases::next_attempt("c") +
         ",\n"
         "         raw_fields = " +
         phrases::object("c.raw_fields") + " || " + phrases::attempt_count(phrases::next_attempt("c"));
}

Reconciler woken(Reconciler dependency) {
  using namespace std::chrono_literals;
  dependency.outcomes = {"woken"};
  dependency.left_alone = {};
  dependency.key = {{"execution_id", "uuid"}};
  dependency.scan = kScan;
  dependency.act = kAct;
  dependency.interval = 5s;
  dependency.rows_meet = false;
  dependency.holdoff = [](const Settings&) { return Milliseconds{0}; };
  return dependency;
}

}  // namespace ff::reconcile::waiting_children
