#include "demo/simulation/simulated_worker.hpp"

#include <algorithm>

#include "demo/simulation/register.hpp"

namespace ff::simulation {
namespace {

using Doing = WorkerState::Doing;

// Shares in percent.
constexpr int kDeadlyExecutions = 2;
constexpr int kCrashes = 9;
constexpr int kFailures = 8;
constexpr int kFinalFailures = 3;
constexpr int kLongWork = 6;
constexpr int kGhosts = 40;
constexpr int kAsksScheduler = 12;
constexpr int kIsGranted = 12;
constexpr int kTriesResumable = 25;

constexpr Milliseconds kWithoutWork{100};
constexpr Milliseconds kGhostPatience{500};
constexpr Milliseconds kBackoff{400};
constexpr std::int32_t kRetriesWithBackoff = 3;
// The daemon has seen it on the register by then, however slow the machine is.
constexpr Milliseconds kBeforeSilence{2000};
constexpr Milliseconds kForever = std::chrono::hours(24 * 365);

// $1 partition_key, $2 execution_id, $3 attempt_index
constexpr std::string_view kEpoch = R"sql(
  SELECT lease_epoch FROM ff_attempt WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

// $1 partition_key, $2 execution_id
constexpr std::string_view kUntilItLapses = R"sql(
  SELECT greatest(0, max(lease_expires_at_ms) - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    FROM ff_attempt WHERE partition_key = $1 AND execution_id = $2)sql";

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
    Hands hands = new_hands();
    if (hands.claim(way_of_claiming(), workload_.options_.partitions)) {
      workload_.ledger_.claimed();
      work(hands);
    } else {
      show(Doing::waiting, std::nullopt, Milliseconds{0});
      if (!workload_.pause(kWithoutWork)) return;
    }
  }
  show(Doing::ended, std::nullopt, Milliseconds{0});
}

Hands SimulatedWorker::new_hands() {
  return {connection_, id(), workload_.options_.lease_ttl, workload_.options_.name};
}

Hands::Way SimulatedWorker::way_of_claiming() {
  std::int64_t die = random(0, 99);
  if ((die -= kAsksScheduler) < 0) return Hands::Way::by_scheduler;
  if ((die -= kIsGranted) < 0) return Hands::Way::by_grant;
  return die < kTriesResumable ? Hands::Way::resumed : Hands::Way::by_handle;
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

void SimulatedWorker::work(Hands& hands) {
  const Claim& claim = hands.claim();
  if (const auto plan = workload_.plans_.take(claim.execution.uuid)) return follow(*plan, hands);
  const Fate fate = fate_of(claim);
  const Milliseconds length = length_of_work();
  show(Doing::working, claim, length);
  if (fate == Fate::crashes) return crash(hands, std::min(length, random_time(10, 300)));
  if (work_and_renew(hands, length)) end(hands, fate);
}

void SimulatedWorker::follow(const Plan& plan, Hands& hands) {
  switch (plan.kind) {
    case Plan::Kind::hang:
      return hang(hands);
    case Plan::Kind::crash:
      show(Doing::working, hands.claim(), length_of_work());
      return crash(hands, random_time(10, 300));
    case Plan::Kind::complete:
      return work_and_complete(hands, plan.length);
    case Plan::Kind::forget_waitpoint:
      return forget_waitpoint(plan, hands);
    case Plan::Kind::taken_over:
      return be_taken_over(hands);
    case Plan::Kind::fall_silent:
      return fall_silent(plan, hands);
    case Plan::Kind::delay:
    case Plan::Kind::wait_for_children:
    case Plan::Kind::suspend:
    case Plan::Kind::answered_suspend:
      return put_aside(plan, hands);
  }
}

void SimulatedWorker::work_and_complete(Hands& hands, Milliseconds length) {
  show(Doing::working, hands.claim(), length,
       length > workload_.options_.lease_ttl ? "slower than its siblings" : "");
  if (work_and_renew(hands, length)) end(hands, Fate::completes);
}

void SimulatedWorker::hang(Hands& hands) {
  workload_.ledger_.hung();
  workload_.tell(id() + " hangs with " + brief(hands.claim()) + ": only the deadline can end it");
  show(Doing::working, hands.claim(), Milliseconds{0}, "hangs until its deadline");
  work_and_renew(hands, kForever);
}

void SimulatedWorker::put_aside(const Plan& plan, Hands& hands) {
  using Kind = Plan::Kind;
  const Claim& claim = hands.claim();
  const bool waits = plan.kind == Kind::wait_for_children;
  const bool delays = plan.kind == Kind::delay;
  const Milliseconds length = waits ? plan.length : random_time(50, 200);
  show(Doing::working, claim, length,
       waits    ? "will wait for its children"
       : delays ? "will delay it"
                : "will suspend it");
  if (!work_and_renew(hands, length)) return;
  // A signal would not find the attempt of a typed claim: FlowFabric looks for it where the execution points.
  const bool answered = plan.kind == Kind::answered_suspend && !hands.granted();
  if (answered) workload_.will_go_on(claim.execution);
  Worker& worker = hands.handle();
  const bool accepted = waits    ? worker.wait_for_children(claim)
                        : delays ? worker.delay(claim, plan.length)
                                 : worker.suspend(claim, plan.suspension);
  if (!accepted) return lose(claim);
  if (waits) return workload_.ledger_.waited(claim);
  if (delays) return workload_.ledger_.delayed(claim);
  workload_.ledger_.suspended(claim, plan.suspension);
  if (answered) workload_.answer_in(claim.execution, plan.length);
  workload_.tell(id() + " suspended " + brief(claim) +
                 "; its time-out: " + plan.suspension.timeout_behavior.value_or("no word, which means fail"));
}

void SimulatedWorker::forget_waitpoint(const Plan& plan, Hands& hands) {
  hands.handle().create_waitpoint(hands.claim(), "forgotten", plan.length / 2);
  workload_.ledger_.waitpoint();
  work_and_complete(hands, plan.length);
}

// Without renewing, until somebody whose clock is a little ahead takes over: so the daemon leaves the lease to him.
void SimulatedWorker::be_taken_over(Hands& hands) {
  constexpr Milliseconds kAhead{300};
  const Claim& claim = hands.claim();
  if (hands.granted()) return crash(hands, random_time(10, 300));
  show(Doing::working, claim, workload_.options_.lease_ttl, "will be taken over");
  const pg::Result left =
      connection_.execute(kUntilItLapses, pg::Params::of(claim.execution.partition, claim.execution.uuid));
  const Milliseconds until_it_lapses{left.one().get<std::int64_t>(0)};
  if (!workload_.pause(std::max(until_it_lapses - kAhead / 2, Milliseconds{0}))) return;
  workload_.ledger_.crashed(claim);
  ++life_;
  GrantedWorker heir(connection_, id(), workload_.options_.lease_ttl, workload_.options_.name);
  if (!heir.issue_reclaim_grant(claim.execution, workload_.options_.lease_ttl, kAhead)) return;
  const auto next = heir.reclaim(claim.execution);
  if (!next) return;
  workload_.ledger_.claimed();
  workload_.ledger_.taken_over();
  workload_.tell(id() + " took over " + brief(claim) + " with a reclaim grant");
  Hands its_hands(connection_, id(), workload_.options_.lease_ttl, workload_.options_.name,
                  Hands::Way::by_handle, *next);
  work_and_complete(its_hands, length_of_work());
}

// Only who is on the register can be missed, and only a lease that holds for longer than that takes needs ending. What a
// scheduler hands out is claimed as "operator", whom nobody takes for dead: then whoever comes after falls silent.
void SimulatedWorker::fall_silent(const Plan& plan, Hands& hands) {
  const Claim& claim = hands.claim();
  const WorkloadOptions& options = workload_.options_;
  if (hands.way() == Hands::Way::by_scheduler) return crash(hands, random_time(10, 300));
  show(Doing::working, claim, kBeforeSilence, "will fall silent");
  Hands long_lived(connection_, id(), plan.length, options.name, hands.way(), claim);
  if (!long_lived.renew()) return lose(claim);
  workload_.ledger_.renewed();
  while (!send_heartbeat(connection_, Register::registration(options, id()))) {
    if (!workload_.finishing_ && workload_.pause(kWithoutWork)) continue;
    // The register is closed: nobody would notice.
    hands.renew();
    return crash(hands, Milliseconds{0});
  }
  if (!workload_.pause(kBeforeSilence)) return;
  workload_.ledger_.fell_silent(claim);
  workload_.tell(id() + " falls silent with " + brief(claim) + ": dead_worker ends its long lease");
  crash(long_lived, Milliseconds{0});
}

// False: the claim is gone, or everything ends.
bool SimulatedWorker::work_and_renew(Hands& hands, Milliseconds length) {
  const Milliseconds between = workload_.options_.lease_ttl / 3;
  for (Milliseconds rest = length; rest.count() > 0;) {
    const Milliseconds step = std::min(rest, between);
    if (!workload_.pause(step)) return false;
    rest -= step;
    if (rest.count() == 0) break;
    if (!hands.renew()) {
      lose(hands.claim());
      return false;
    }
    workload_.ledger_.renewed();
  }
  return true;
}

void SimulatedWorker::end(Hands& hands, Fate fate) {
  const Claim& claim = hands.claim();
  if (fate == Fate::completes) return hands.complete() ? workload_.ledger_.completed(claim) : lose(claim);
  if (!hands.granted()) {
    if (!hands.handle().fail(claim, fate == Fate::fails)) return lose(claim);
    return workload_.ledger_.failed(claim, fate == Fate::fails_for_good);
  }
  using Failed = GrantedWorker::Failed;
  const Failed failed = hands.grants().fail(claim, fate == Fate::fails ? kRetriesWithBackoff : 0, kBackoff);
  if (failed == Failed::refused) return lose(claim);
  if (failed == Failed::to_be_retried) return workload_.ledger_.backed_off(claim);
  workload_.ledger_.failed(claim, true);
}

void SimulatedWorker::crash(Hands& hands, Milliseconds into_work) {
  const Claim& claim = hands.claim();
  if (!workload_.pause(into_work)) return;
  workload_.ledger_.crashed(claim);
  workload_.tell(id() + " crashed with " + brief(claim) + " in its hands: the lease will lapse");
  if (random(0, 99) < kGhosts)
    ghosts_.push_back({id(), hands.way(), claim,
                       Clock::system().now() + workload_.options_.lease_ttl + random_time(300, 2500)});
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
    Hands hands(connection_, ghost.id, workload_.options_.lease_ttl, workload_.options_.name, ghost.way,
                claim);
    const bool refused = random(0, 1) == 0 ? !hands.renew() : !hands.complete();
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

}  // namespace ff::simulation
