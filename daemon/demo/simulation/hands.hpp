#pragma once

#include <optional>
#include <string>

#include "demo/simulation/granted_worker.hpp"
#include "demo/simulation/worker.hpp"

namespace ff::simulation {

/// A worker that has claimed in one of FlowFabric's ways, and goes on in the manner that belongs to it.
class Hands {
 public:
  /// A way of claiming: of its own accord, by handle; what a suspension has given back; by what the scheduler hands
  /// out; by a grant of somebody's own scheduler.
  enum class Way { by_handle, resumed, by_scheduler, by_grant };

  Hands(pg::Connection& connection, const std::string& id, Milliseconds lease_ttl, const std::string& lane);
  /// With what somebody has claimed before.
  Hands(pg::Connection& connection, const std::string& id, Milliseconds lease_ttl, const std::string& lane,
        Way way, const Claim& claim);

  /// Whatever that way finds in these partitions; nothing as with Worker.
  std::optional<Claim> claim(Way way, const Partitions& partitions);

  bool renew() { return granted() ? granted_.renew(claim_) : handle_.renew(claim_); }
  bool complete() { return granted() ? granted_.complete(claim_) : handle_.complete(claim_); }

  /// The verbs that there is only one kind of.
  Worker& handle() { return handle_; }
  GrantedWorker& grants() { return granted_; }

  const Claim& claim() const { return claim_; }
  Way way() const { return way_; }
  /// The claim is of the typed kind.
  bool granted() const { return way_ == Way::by_scheduler || way_ == Way::by_grant; }
  const std::string& id() const { return handle_.id(); }

 private:
  std::optional<ExecutionId> next(Way way, const Partitions& partitions);

  pg::Connection& connection_;
  Worker handle_;
  GrantedWorker granted_;
  const std::string lane_;
  const Milliseconds lease_ttl_;
  Way way_ = Way::by_handle;
  Claim claim_{};
};

}  // namespace ff::simulation
