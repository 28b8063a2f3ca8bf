#include "support/undating.hpp"

namespace ff::test {

reconcile::Reconciler undating(std::string_view scan) {
  return {.name = "undater",
          .summary = "Takes deadlines away.",
          .outcomes = {"undated"},
          .key = {{"execution_id", "uuid"}},
          .execution_column = "execution_id",
          .scan = scan,
          .act = R"sql(
      undated AS (
        UPDATE {schema}.ff_exec_core c
           SET deadline_at_ms = NULL
          FROM clock, key
         WHERE {in_partitions:c} AND c.partition_key = key.partition_key AND c.execution_id = key.execution_id
           AND c.deadline_at_ms + 0 <= clock.due_ms AND {filter:c}
        RETURNING c.partition_key, c.execution_id, clock.now_ms),
      moved AS (SELECT partition_key, execution_id, now_ms AS due_at_ms, 'undated' AS outcome FROM undated))sql",
          .interval = Milliseconds{1000}};
}

}  // namespace ff::test
