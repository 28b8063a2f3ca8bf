#pragma once

#include <optional>
#include <string>

#include "base/partitions.hpp"
#include "demo/simulation/claim.hpp"
#include "demo/simulation/executions.hpp"
#include "pg/connection.hpp"

namespace ff::simulation {

/// A FlowFabric worker of the other kind, whose calls carry execution, attempt and fence instead of a handle, and who
/// needs a grant before it may claim. What it claims is unlike what Worker claims: the execution's attempt_index is
/// one more than that of the attempt that is worked on. As with Worker, each verb writes what FlowFabric's own writes
/// and answers nothing or false, having changed nothing, when it is refused.
class GrantedWorker {
 public:
  GrantedWorker(pg::Connection& connection, std::string worker_id, Milliseconds lease_ttl,
                std::string lane = kDefaultLane);

  /// What FlowFabric's scheduler does for a worker that asks for work (`claim_for_worker`): a grant for the next
  /// execution of its lane, which is `pending_claim` from then on. Only grant_and_claim() takes it from there, until the
  /// grant has ended and the daemon returns it.
  std::optional<ExecutionId> ask_scheduler(const Partitions& partitions);
  /// An operator's way (`issue_grant_and_claim`): grant and claim in one step, under the name of `operator`. Asks for
  /// nothing but the words of the state; an attempt that was interrupted goes on.
  std::optional<Claim> grant_and_claim(const ExecutionId& execution);

  /// A grant as somebody's own scheduler writes it; FlowFabric has no operation for that on PostgreSQL.
  void grant(const ExecutionId& execution, Milliseconds ttl);
  /// With that grant (`claim_execution`), at the attempt that FlowFabric's client would name, the
  /// total_attempt_count. Refused where an attempt was interrupted.
  std::optional<Claim> claim_granted(const ExecutionId& execution);

  bool renew(const Claim& claim);
  bool complete(const Claim& claim);
  enum class Failed { refused, to_be_retried, ended };
  /// The caller says what its policy allows: another attempt after `backoff`, unless that has been done `max_retries`
  /// times.
  Failed fail(const Claim& claim, std::int32_t max_retries, Milliseconds backoff,
              const std::string& reason = "simulated failure");

  /// The right to take over from a worker whose lease has lapsed (`issue_reclaim_grant`), by the clock of whoever
  /// issues it, which is so far ahead.
  bool issue_reclaim_grant(const ExecutionId& execution, Milliseconds ttl, Milliseconds clock_ahead = {});
  /// Takes over with it (`reclaim_execution`): the next attempt. The lease of the one before stays as it is.
  std::optional<Claim> reclaim(const ExecutionId& execution);

  const std::string& id() const { return id_; }

 private:
  bool fenced(pg::Transaction& transaction, const Claim& claim) const;

  pg::Connection& connection_;
  const std::string id_;
  const Milliseconds lease_ttl_;
  const std::string lane_;
};

}  // namespace ff::simulation
