#include "demo/simulation/ledger.hpp"

namespace ff::simulation {

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

void Ledger::completed(const Claim& claim) {
  const std::lock_guard lock(mutex_);
  ++counts_.completed;
  ++leases_[claim.execution.uuid].released;
}

void Ledger::failed(const Claim& claim, bool for_good) {
  const std::lock_guard lock(mutex_);
  ++(for_good ? counts_.failed : counts_.retried);
  ++leases_[claim.execution.uuid].released;
}

void Ledger::delayed(const Claim& claim) {
  const std::lock_guard lock(mutex_);
  ++counts_.delayed;
  ++leases_[claim.execution.uuid].released;
}

void Ledger::backed_off(const Claim& claim) {
  const std::lock_guard lock(mutex_);
  ++counts_.retried;
  ++counts_.delayed;
  ++leases_[claim.execution.uuid].released;
}

void Ledger::waited(const Claim& claim) {
  const std::lock_guard lock(mutex_);
  ++counts_.waited;
  ++leases_[claim.execution.uuid].released;
}

void Ledger::suspended(const Claim& claim, const Suspension& suspension) {
  const std::lock_guard lock(mutex_);
  ++counts_.suspended;
  ++leases_[claim.execution.uuid].released;
  suspensions_[claim.execution.uuid].timeout_behavior = suspension.timeout_behavior;
}

void Ledger::answered(const ExecutionId& execution) {
  const std::lock_guard lock(mutex_);
  ++counts_.answered;
  suspensions_[execution.uuid].answered = true;
}

void Ledger::waitpoint() {
  const std::lock_guard lock(mutex_);
  ++counts_.waitpoints;
}

void Ledger::taken_over() {
  const std::lock_guard lock(mutex_);
  ++counts_.taken_over;
}

void Ledger::crashed(const Claim& claim) {
  const std::lock_guard lock(mutex_);
  ++counts_.crashed;
  ++leases_[claim.execution.uuid].abandoned;
}

void Ledger::fell_silent(const Claim& claim) {
  const std::lock_guard lock(mutex_);
  ++counts_.silent;
  silent_.insert(claim.execution.uuid);
}

void Ledger::lost(const Claim& claim) {
  const std::lock_guard lock(mutex_);
  ++counts_.lost;
  ++leases_[claim.execution.uuid].abandoned;
}

void Ledger::hung() {
  const std::lock_guard lock(mutex_);
  ++counts_.hung;
}

void Ledger::ghost(bool refused) {
  const std::lock_guard lock(mutex_);
  ++(refused ? counts_.ghosts_refused : counts_.ghosts_accepted);
}

void Ledger::flow(bool with_leftover) {
  const std::lock_guard lock(mutex_);
  ++counts_.flows;
  if (with_leftover) ++counts_.leftovers;
}

void Ledger::cancelled_member() {
  const std::lock_guard lock(mutex_);
  ++counts_.flows;
  ++counts_.untold;
  ++counts_.strays;
}

void Ledger::cancelled_header(std::int64_t members) {
  const std::lock_guard lock(mutex_);
  ++counts_.flows;
  counts_.doomed += members;
}

void Ledger::registered(std::int64_t number) {
  const std::lock_guard lock(mutex_);
  counts_.registered += number;
}

void Ledger::admitted() {
  const std::lock_guard lock(mutex_);
  ++counts_.admitted;
}

void Ledger::short_lived() {
  const std::lock_guard lock(mutex_);
  ++counts_.short_lived;
}

void Ledger::interrupted() {
  const std::lock_guard lock(mutex_);
  ++counts_.interrupted;
}

void Ledger::found(const Past& past) {
  const std::lock_guard lock(mutex_);
  counts_.past = past;
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

std::map<Uuid, Ledger::Leases> Ledger::leases() const {
  const std::lock_guard lock(mutex_);
  return leases_;
}

std::map<Uuid, Ledger::Suspended> Ledger::suspensions() const {
  const std::lock_guard lock(mutex_);
  return suspensions_;
}

std::set<Uuid> Ledger::silent() const {
  const std::lock_guard lock(mutex_);
  return silent_;
}

}  // namespace ff::simulation
