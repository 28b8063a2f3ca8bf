#include "demo/simulation/hands.hpp"

namespace ff::simulation {
namespace {

// $1 partition keys, $2 lane. In random order, so that workers do not queue up for one.
constexpr std::string_view kResumable = R"sql(
  SELECT partition_key, execution_id FROM ff_exec_core
   WHERE partition_key = ANY($1) AND lane_id = $2 AND lifecycle_phase = 'runnable'
     AND eligibility_state = 'eligible_now' AND public_state = 'resumable'
   ORDER BY random() LIMIT 1)sql";

constexpr std::string_view kGrantable = R"sql(
  SELECT partition_key, execution_id FROM ff_exec_core
   WHERE partition_key = ANY($1) AND lane_id = $2 AND lifecycle_phase = 'runnable'
     AND eligibility_state = 'eligible_now' AND attempt_state <> 'attempt_interrupted'
   ORDER BY random() LIMIT 1)sql";

}  // namespace

Hands::Hands(pg::Connection& connection, const std::string& id, Milliseconds lease_ttl,
             const std::string& lane)
    : connection_(connection),
      handle_(connection, id, lease_ttl, lane),
      granted_(connection, id, lease_ttl, lane),
      lane_(lane),
      lease_ttl_(lease_ttl) {}

Hands::Hands(pg::Connection& connection, const std::string& id, Milliseconds lease_ttl,
             const std::string& lane, Way way, const Claim& claim)
    : Hands(connection, id, lease_ttl, lane) {
  way_ = way;
  claim_ = claim;
}

std::optional<ExecutionId> Hands::next(Way way, const Partitions& partitions) {
  const pg::Result found = connection_.execute_prepared(way == Way::resumed ? kResumable : kGrantable,
                                                        pg::Params::of(partitions, lane_));
  if (found.empty()) return std::nullopt;
  return ExecutionId{found.one().get<PartitionKey>(0), found.one().get<Uuid>(1)};
}

std::optional<Claim> Hands::claim(Way way, const Partitions& partitions) {
  std::optional<Claim> claim;
  if (way == Way::by_handle) {
    claim = handle_.claim(partitions);
  } else if (way == Way::by_scheduler) {
    if (const auto execution = granted_.ask_scheduler(partitions))
      claim = granted_.grant_and_claim(*execution);
  } else if (const auto execution = next(way, partitions)) {
    if (way == Way::by_grant) granted_.grant(*execution, lease_ttl_);
    claim = way == Way::by_grant ? granted_.claim_granted(*execution) : handle_.claim_resumed(*execution);
  }
  if (claim) {
    way_ = way;
    claim_ = *claim;
  }
  return claim;
}

}  // namespace ff::simulation
