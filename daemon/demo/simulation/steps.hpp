#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "demo/simulation/claim.hpp"
#include "pg/error.hpp"
#include "pg/transaction.hpp"

/// What the steps of FlowFabric's writers have in common. FlowFabric stamps times by the clock of its host; here it
/// is the database's, so that a worker and the daemon that watches it agree on what is late.
namespace ff::simulation {

/// Now, in Unix milliseconds, as an SQL expression.
inline const std::string kNowMs = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

std::int64_t in_ms(Milliseconds duration);
std::optional<std::int64_t> in_ms(const std::optional<Milliseconds>& duration);

/// $1 partition_key, $2 execution_id; then $3 attempt_index.
pg::Params of(const ExecutionId& execution);
pg::Params of(const Claim& claim);

/// Those of the partitions in $1 that have work for whoever claims in lane $2. In random order, so that workers do not queue up
/// in the first.
constexpr std::string_view kPartitionsWithWork = R"sql(
  SELECT key FROM unnest($1) AS key
   CROSS JOIN LATERAL (SELECT FROM ff_exec_core
                        WHERE partition_key = key AND lane_id = $2 AND lifecycle_phase = 'runnable'
                          AND eligibility_state = 'eligible_now'
                        LIMIT 1) AS work
   ORDER BY random())sql";

/// Locks the attempt, waiting for it, and says whether it is still at the claim's epoch.
bool hold(pg::Transaction& transaction, const Claim& claim);

/// Appends to ff_lease_event. A lease can outlive its core row, and still has its event.
void append_lease_event(pg::Transaction& transaction, const ExecutionId& execution, std::string_view type,
                        bool with_lease_id = false);

/// Appends to ff_completion_event. Most of FlowFabric's writers leave namespace and instance tag null.
void append_completion_event(pg::Transaction& transaction, const ExecutionId& execution,
                             std::string_view outcome);

/// Runs `body` in a SERIALIZABLE transaction, which it has to commit; up to three times, as others get in its way.
template <class Body>
auto serializable(pg::Connection& connection, const Body& body) {
  constexpr int kTries = 3;
  for (int attempt = 1;; ++attempt) {
    try {
      pg::Transaction transaction(connection, {.isolation = pg::Isolation::serializable});
      return body(transaction);
    } catch (const pg::Error& error) {
      if (!error.retryable() || attempt == kTries) throw;
    }
  }
}

}  // namespace ff::simulation
