#include "sandbox/simulated_worker.hpp"

#include <algorithm>

namespace ff::sandbox {
namespace {

using Doing = WorkerState::Doing;

// Shares in percent.
constexpr int kDeadlyExecutions = 2;
constexpr int kCrashes = 9;
constexpr int kFailures = 8;
constexpr int kFinalFailures = 3;
constexpr int kLongWork = 6;
constexpr int kGhosts = 40;

constexpr Milliseconds kWithoutWork{100};
constexpr Milliseconds kGhostPatience{500};
constexpr Milliseconds kForever = std::chrono::hours(24 * 365);

// $1 partition_key, $2 execution_id, $3 attempt_index
constexpr std::string_view kEpoch = R"sql(
  SELECT lease_epoch FROM ff_attempt WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

// $1 partition_key, $2 execution_id
constexpr std::string_view kFate = R"sql(
  SELECT CASE WHEN public_state = 'cancelled' THEN 'not needed any more: its siblings were enough'
              WHEN raw_fields->>'last_failure_message' = 'execution_deadline' THEN 'past its deadline'
              ELSE 'too slow' END
    FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $2)sql";

// The same for every worker that meets it: a random uuid's first byte is a fair die.
bool is_deadly(const Uuid& execution) {
  return execution.data[0] * 100 / 256 < kDeadlyExecutions;
}

std::string brief(const Claim& claim) {
  return to_string(claim.execution.uuid).substr(0, 8);
}

}  // namespace

SimulatedWorker::SimulatedWorker(Workload& workload, std::size_t slot, pg::Connection& connection)
    : workload_(workload), slot_(slot), connection_(connection) {}

void SimulatedWorker::live() {
  while (!workload_.finishing_) {
    haunt();
    std::optional<Claim> claim =
        Worker(connection_, id(), workload_.options_.lease_ttl, workload_.options_.name)
            .claim(workload_.options_.partitions);
    if (claim) {
      workload_.ledger_.claimed();
      work(*claim);
    } else {
      show(Doing::waiting, std::nullopt, Milliseconds{0});
      if (!workload_.pause(kWithoutWork)) return;
    }
  }
  show(Doing::ended, std::nullopt, Milliseconds{0});
}

SimulatedWorker::Fate SimulatedWorker::fate_of(const Claim& claim) {
  if (is_deadly(claim.execution.uuid)) return Fate::crashes;
  std::int64_t die = random(0, 99);
  if ((die -= kCrashes) < 0) return Fate::crashes;
  if ((die -= kFinalFailures) < 0) return Fate::fails_for_good;
  if ((die -= kFailures) < 0) return workload_.ledger_.may_retry(claim) ? Fate::fails : Fate::fails_for_good;
  return Fate::completes;
}

Milliseconds SimulatedWorker::length_of_work() {
  const auto ttl = workload_.options_.lease_ttl.count();
  return random(0, 99) < kLongWork ? random_time(ttl, 2 * ttl) : random_time(20, 400);
}

void SimulatedWorker::work(const Claim& claim) {
  if (const auto plan = workload_.plans_.take(claim.execution.uuid)) return follow(*plan, claim);
  const Fate fate = fate_of(claim);
  const Milliseconds length = length_of_work();
  show(Doing::working, claim, length);
  if (fate == Fate::crashes) return crash(claim, std::min(length, random_time(10, 300)));
  Worker worker(connection_, id(), workload_.options_.lease_ttl, workload_.options_.name);
  if (work_and_renew(worker, claim, length)) end(worker, claim, fate);
}

void SimulatedWorker::follow(const Plan& plan, const Claim& claim) {
  Worker worker(connection_, id(), workload_.options_.lease_ttl, workload_.options_.name);
  switch (plan.kind) {
    case Plan::Kind::hang:
      return hang(worker, claim);
    case Plan::Kind::crash:
      show(Doing::working, claim, length_of_work());
      return crash(claim, random_time(10, 300));
    case Plan::Kind::complete:
      show(Doing::working, claim, plan.length,
           plan.length > workload_.options_.lease_ttl ? "slower than its siblings" : "");
      if (work_and_renew(worker, claim, plan.length)) end(worker, claim, Fate::completes);
      return;
    case Plan::Kind::delay:
    case Plan::Kind::suspend:
      return put_aside(worker, plan, claim);
  }
}

void SimulatedWorker::hang(Worker& worker, const Claim& claim) {
  workload_.ledger_.hung();
  workload_.tell(id() + " hangs with " + brief(claim) + ": only the deadline can end it");
  show(Doing::working, claim, Milliseconds{0}, "hangs until its deadline");
  work_and_renew(worker, claim, kForever);
}

void SimulatedWorker::put_aside(Worker& worker, const Plan& plan, const Claim& claim) {
  const bool delays = plan.kind == Plan::Kind::delay;
  const Milliseconds length = random_time(50, 200);
  show(Doing::working, claim, length, delays ? "will delay it" : "will suspend it");
  if (!work_and_renew(worker, claim, length)) return;
  if (!(delays ? worker.delay(claim, plan.length) : worker.suspend(claim, plan.suspension)))
    return lose(claim);
  if (delays) return workload_.ledger_.delayed(claim);
  workload_.ledger_.suspended(claim, plan.suspension);
  workload_.tell(id() + " suspended " + brief(claim) +
                 "; its time-out: " + plan.suspension.timeout_behavior.value_or("no word, which means fail"));
}

// False: the claim is gone, or everything ends.
bool SimulatedWorker::work_and_renew(Worker& worker, const Claim& claim, Milliseconds length) {
  const Milliseconds between = workload_.options_.lease_ttl / 3;
  for (Milliseconds rest = length; rest.count() > 0;) {
    const Milliseconds step = std::min(rest, between);
    if (!workload_.pause(step)) return false;
    rest -= step;
    if (rest.count() == 0) break;
    if (!worker.renew(claim)) {
      lose(claim);
      return false;
    }
    workload_.ledger_.renewed();
  }
  return true;
}

void SimulatedWorker::end(Worker& worker, const Claim& claim, Fate fate) {
  const bool accepted =
      fate == Fate::completes ? worker.complete(claim) : worker.fail(claim, fate == Fate::fails);
  if (!accepted) return lose(claim);
  if (fate == Fate::completes) return workload_.ledger_.completed(claim);
  workload_.ledger_.failed(claim, fate == Fate::fails_for_good);
}

void SimulatedWorker::crash(const Claim& claim, Milliseconds into_work) {
  if (!workload_.pause(into_work)) return;
  workload_.ledger_.crashed(claim);
  workload_.tell(id() + " crashed with " + brief(claim) + " in its hands: the lease will lapse");
  if (random(0, 99) < kGhosts)
    ghosts_.push_back(
        {id(), claim, Clock::system().now() + workload_.options_.lease_ttl + random_time(300, 2500)});
  const Milliseconds restart = random_time(400, 900);
  show(Doing::crashed, claim, restart);
  ++life_;
  if (!workload_.finishing_) workload_.pause(restart);
}

void SimulatedWorker::lose(const Claim& claim) {
  workload_.ledger_.lost(claim);
  const pg::Result why =
      connection_.execute(kFate, pg::Params::of(claim.execution.partition, claim.execution.uuid));
  workload_.tell(id() + " is refused for " + brief(claim) + ", " + why.one().get<std::string>(0));
}

// Until its lease is taken, whoever comes back is only late, and welcome.
void SimulatedWorker::haunt() {
  const SteadyTime now = Clock::system().now();
  for (Ghost& ghost : ghosts_) {
    if (ghost.returns > now) continue;
    const Claim& claim = ghost.claim;
    const pg::Result found = connection_.execute(
        kEpoch, pg::Params::of(claim.execution.partition, claim.execution.uuid, claim.attempt_index));
    if (found.one().get<std::int64_t>(0) == claim.lease_epoch) {
      ghost.returns = now + kGhostPatience;
      continue;
    }
    Worker worker(connection_, ghost.id, workload_.options_.lease_ttl, workload_.options_.name);
    const bool refused = random(0, 1) == 0 ? !worker.renew(claim) : !worker.complete(claim);
    workload_.ledger_.ghost(refused);
    workload_.tell(ghost.id + " came back for " + brief(claim) + (refused ? ": refused" : ": NOT refused"));
    ghost.returns = SteadyTime::max();
  }
  std::erase_if(ghosts_, [](const Ghost& ghost) { return ghost.returns == SteadyTime::max(); });
}

std::int64_t SimulatedWorker::random(std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(generator_);
}

Milliseconds SimulatedWorker::random_time(std::int64_t least_ms, std::int64_t most_ms) {
  return Milliseconds{random(least_ms, most_ms)};
}

std::string SimulatedWorker::id() const {
  return "w" + std::to_string(slot_ + 1) + "." + std::to_string(life_);
}

void SimulatedWorker::show(Doing doing, const std::optional<Claim>& claim, Milliseconds planned,
                           const std::string& note) {
  workload_.show(slot_, {id(), doing, claim, Clock::system().now(), planned, note});
}

}  // namespace ff::sandbox
