#pragma once

#include <optional>
#include <string>

#include "base/partitions.hpp"
#include "demo/simulation/claim.hpp"
#include "demo/simulation/executions.hpp"
#include "demo/simulation/suspension.hpp"
#include "pg/connection.hpp"

namespace ff::simulation {

/// A FlowFabric worker that goes by its handle, as most do: each verb is one transaction of several statements, takes
/// its locks in FlowFabric's order, and writes what FlowFabric's own writer writes, column by column (a test compares
/// the two). What is simulated is only the work in between. See GrantedWorker for the other kind.
///
/// A verb on a Claim returns false, having changed nothing, when it is refused: the attempt has moved on to another
/// epoch. Throws pg::Error, after which nothing was changed unless the error is outcome_unknown(). One thread at a
/// time; the connection must outlive it and be idle between calls.
class Worker {
 public:
  Worker(pg::Connection& connection, std::string worker_id, Milliseconds lease_ttl,
         std::string lane = kDefaultLane);

  /// Takes the execution with the highest priority, the oldest among equals, from one of the partitions that
  /// have any for this lane. Nothing: there is none, or others hold or just took what there is.
  std::optional<Claim> claim(const Partitions& partitions);
  /// Takes this one, if it can be claimed and nobody holds its row.
  std::optional<Claim> claim_one(const ExecutionId& execution);
  /// Goes on with an execution whose suspension a signal has ended, on the attempt that was suspended. Nothing: it is
  /// not `resumable`.
  std::optional<Claim> claim_resumed(const ExecutionId& execution);

  /// A fresh lease of lease_ttl from now.
  bool renew(const Claim& claim);
  /// public_state stays `running`: FlowFabric's own leaves it.
  bool complete(const Claim& claim);
  /// Retryable: back to the queue as the next attempt, whatever the policy says; else the end. public_state stays.
  bool fail(const Claim& claim, bool retryable, const std::string& message = "simulated failure");
  /// Back to the queue, not to be claimed before `length` has passed and somebody has promoted it.
  bool delay(const Claim& claim, Milliseconds length);
  /// Back to the queue, not to be claimed before those that it depends on have ended. Does not look whether they
  /// have already.
  bool wait_for_children(const Claim& claim);
  /// A waitpoint for a later suspension, which may never come: it is `pending` for so long.
  Waitpoint create_waitpoint(const Claim& claim, const std::string& key, Milliseconds expires_in);
  bool suspend(const Claim& claim, const Suspension& suspension);

  const std::string& id() const { return id_; }

 private:
  std::optional<Claim> take(const std::string& candidate, const pg::Params& params);

  pg::Connection& connection_;
  const std::string id_;
  const Milliseconds lease_ttl_;
  const std::string lane_;
};

}  // namespace ff::simulation
