#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/partitions.hpp"
#include "base/time.hpp"
#include "pg/connection.hpp"
#include "pg/transaction.hpp"

namespace ff::sandbox {

inline constexpr const char* kDefaultLane = "default";

struct NewExecution {
  PartitionKey partition{};
  std::optional<Uuid> flow{};
  std::string lane = kDefaultLane;
  std::optional<std::int32_t> max_retries{};  ///< nothing: no policy at all, so no retries
  std::int32_t priority = 0;                  ///< higher is claimed first
  std::optional<Milliseconds> deadline_in{};  ///< of the whole execution, from now on
  std::optional<std::string> name_space{};
  std::optional<std::string> instance_tag{};  ///< the tag cairn.instance_id
};

/// What a worker holds: an attempt, by the epoch at which it was given. Spent once it has been completed,
/// failed, delayed or suspended: the fence is the epoch alone, and not every one of these steps moves it.
struct Claim {
  ExecutionId execution;
  std::int32_t attempt_index = 0;
  std::int64_t lease_epoch = 0;
};

/// Durations count from the moment of suspension.
struct Suspension {
  struct Waitpoint {
    std::string key{};  ///< may be empty
    std::optional<Milliseconds> expires_in{};
  };
  std::optional<Milliseconds> timeout_in{};
  std::optional<std::string> timeout_behavior{};  ///< see ff_suspension_current; nothing means `fail`
  std::vector<Waitpoint> waitpoints{};
};

/// Makes one execution that can be claimed at once.
ExecutionId create(pg::Connection& connection, const NewExecution& execution);
/// Makes `count` of them in one statement, dealt out over `partitions` in turn, else all alike.
std::vector<ExecutionId> create(pg::Connection& connection, const NewExecution& like,
                                const Partitions& partitions, int count);

/// A FlowFabric worker as the schema contract describes it: each verb is one transaction of several
/// statements, takes its locks in the contract's order, and writes the lease and completion events. What is
/// simulated is only the work in between.
///
/// All times are the database's. A verb on a Claim returns false, having changed nothing, when it is refused:
/// the attempt has moved on to another epoch. Throws pg::Error, after which nothing was changed unless the
/// error is outcome_unknown(). One thread at a time; the connection must outlive it and be idle between
/// calls.
class Worker {
 public:
  Worker(pg::Connection& connection, std::string worker_id, Milliseconds lease_ttl,
         std::string lane = kDefaultLane);

  /// Takes the execution with the highest priority, the oldest among equals, from one of the partitions that
  /// have any for this lane. Nothing: there is none, or others hold or just took what there is.
  std::optional<Claim> claim(const Partitions& partitions);
  /// Takes this one, if it can be claimed and nobody holds its row.
  std::optional<Claim> claim_one(const ExecutionId& execution);

  /// A fresh lease of lease_ttl from now.
  bool renew(const Claim& claim);
  bool complete(const Claim& claim);
  /// Retryable: back to the queue as the next attempt, whatever the policy says; else the end.
  bool fail(const Claim& claim, bool retryable);
  /// Back to the queue, not to be claimed before `length` has passed and somebody has promoted it.
  bool delay(const Claim& claim, Milliseconds length);
  bool suspend(const Claim& claim, const Suspension& suspension);

  const std::string& id() const { return id_; }

 private:
  std::optional<Claim> take(const std::string& candidate, const pg::Params& params);
  bool hold(pg::Transaction& transaction, const Claim& claim) const;

  pg::Connection& connection_;
  const std::string id_;
  const Milliseconds lease_ttl_;
  const std::string lane_;
};

}  // namespace ff::sandbox
