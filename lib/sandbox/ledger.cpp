#include "sandbox/ledger.hpp"

namespace ff::sandbox {

void Ledger::created(const std::vector<ExecutionId>& executions, std::optional<std::int32_t> max_retries) {
  const std::lock_guard lock(mutex_);
  counts_.created += static_cast<std::int64_t>(executions.size());
  if (!max_retries) return;
  for (const ExecutionId& id : executions) max_retries_.emplace(id.uuid, *max_retries);
}

void Ledger::claimed() {
  const std::lock_guard lock(mutex_);
  ++counts_.claimed;
}

void Ledger::renewed() {
  const std::lock_guard lock(mutex_);
  ++counts_.renewed;
}

void Ledger::completed() {
  const std::lock_guard lock(mutex_);
  ++counts_.completed;
}

void Ledger::failed(bool for_good) {
  const std::lock_guard lock(mutex_);
  ++(for_good ? counts_.failed : counts_.retried);
}

void Ledger::crashed(const Claim& claim) {
  const std::lock_guard lock(mutex_);
  ++counts_.crashed;
  ++lapses_[claim.execution.uuid];
}

void Ledger::lost(const Claim& claim) {
  const std::lock_guard lock(mutex_);
  ++counts_.lost;
  ++lapses_[claim.execution.uuid];
}

void Ledger::ghost(bool refused) {
  const std::lock_guard lock(mutex_);
  ++(refused ? counts_.ghosts_refused : counts_.ghosts_accepted);
}

bool Ledger::may_retry(const Claim& claim) const {
  const std::lock_guard lock(mutex_);
  const auto found = max_retries_.find(claim.execution.uuid);
  return found != max_retries_.end() && claim.attempt_index < found->second;
}

WorkCounts Ledger::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::map<Uuid, std::int64_t> Ledger::lapses() const {
  const std::lock_guard lock(mutex_);
  return lapses_;
}

}  // namespace ff::sandbox
