#include "faults/real_worker.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "demo/simulation/outage.hpp"
#include "faults/world.hpp"
#include "support/database.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;
using test::FlowFabric;
using test::FlowFabricError;
using test::Json;

constexpr std::int64_t kLeaseMs = 1500;
constexpr Milliseconds kHeldLease = 6s;
constexpr int kPartitions = 16;
constexpr Milliseconds kBetweenProcesses = 300ms;
constexpr Milliseconds kStartTime = 10s;
constexpr std::size_t kMostRemembered = 20;
constexpr int kLongestPauseMs = 300;
constexpr const char* kHandle = "h";

// FlowFabric has said no, in distinction to an error of the way there, after which nobody knows.
bool is_refusal(const FlowFabricError& error) {
  for (const char* family : {"Contention.", "State.", "NotFound.", "Conflict."})
    if (error.kind().starts_with(family)) return true;
  return false;
}

bool is_of_the_way(const FlowFabricError& error) {
  for (const char* kind : {"Transport", "Timeout", "Unavailable", "Database", "Usage"})
    if (error.kind() == kind) return true;
  return false;
}

}  // namespace

RealWorker::RealWorker(RealWorkerOptions options, RealRecord& record)
    : options_(std::move(options)), record_(record), dice_(options_.seed) {}

void RealWorker::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      live_once();
    } catch (const Unheard&) {
      std::this_thread::sleep_for(kBetweenProcesses);
    }
    std::this_thread::sleep_for(Milliseconds{dice_.below(kLongestPauseMs)});
  }
  process_.reset();
}

void RealWorker::live_once() {
  if (dice_.chance(60)) make_work();
  std::optional<Lease> lease;
  if (dice_.chance(50)) lease = claim_what_was_suspended();
  if (!lease) lease = dice_.chance(25) ? claim_with_a_grant() : claim();
  if (lease) carry_on(*lease);
  come_back_late();
}

// --- What there is to do --------------------------------------------------------------------------------------------

std::string RealWorker::create(Json more) {
  Json arguments{
      {"partition", dice_.below(kPartitions)}, {"lane", options_.lane},         {"namespace", options_.lane},
      {"runnable", "pending_first_attempt"},   {"max_retries", dice_.below(3)}, {"backoff_ms", 200}};
  arguments.update(more);
  return ask("create_execution", std::move(arguments)).at("execution");
}

void RealWorker::make_work() {
  if (dice_.chance(8)) return make_flow();
  create(dice_.chance(8) ? Json{{"deadline_in_ms", 1500}} : Json::object());
}

// The downstream waits for the others once it is at work. Whoever of them is not needed any more is cancelled, at work as
// well. Nobody can be claimed before all edges are there.
void RealWorker::make_flow() {
  const int partition = dice_.below(kPartitions);
  const Json flow = ask("create_flow", {{"partition", partition}, {"namespace", options_.lane}}).at("flow");
  const Json in_flow{{"flow", flow}, {"partition", partition}, {"runnable", nullptr}};
  const std::string downstream = create(in_flow);
  std::vector<std::string> members{downstream};
  if (dice_.chance(60))
    ask("set_edge_policy", {{"flow", flow},
                            {"downstream", downstream},
                            {"policy", "any_of"},
                            {"on_satisfied", "cancel_remaining"}});
  for (int i = 0; i < 3; ++i) {
    members.push_back(create(in_flow));
    ask("stage_edge",
        {{"flow", flow}, {"upstream", members.back()}, {"downstream", downstream}, {"apply", true}});
  }
  for (const std::string& member : members)
    ask("make_runnable", {{"execution", member}, {"attempt_state", "pending_first_attempt"}});
  parents_.push_back(downstream);
  if (parents_.size() > kMostRemembered) parents_.erase(parents_.begin());
}

// --- Claims ---------------------------------------------------------------------------------------------------------

std::optional<RealWorker::Lease> RealWorker::lease_of(const Json& told) {
  if (told.is_null()) return std::nullopt;
  record_.claimed();
  return Lease{told.at("execution"), told.at("attempt"), told.at("epoch")};
}

std::optional<RealWorker::Lease> RealWorker::claim() {
  return lease_of(ask("claim", {{"lane", options_.lane}, {"as", kHandle}, {"ttl_ms", kLeaseMs}}));
}

// Now and then its worker does not come: the grant lapses.
std::optional<RealWorker::Lease> RealWorker::claim_with_a_grant() {
  const Json grant = ask("claim_for_worker", {{"lane", options_.lane}, {"grant_ttl_ms", kLeaseMs}});
  if (grant.is_null() || dice_.chance(15)) return std::nullopt;
  try {
    const std::string execution = grant.at("execution");
    return lease_of(
        ask("issue_grant_and_claim",
            {{"execution", execution}, {"lane", options_.lane}, {"as", kHandle}, {"ttl_ms", kLeaseMs}},
            execution));
  } catch (const FlowFabricError&) {
    return std::nullopt;  // cancelled in between
  }
}

// Whoever claims it as any other may have been first.
std::optional<RealWorker::Lease> RealWorker::claim_what_was_suspended() {
  if (suspended_.empty()) return std::nullopt;
  const std::string execution = suspended_.front();
  suspended_.erase(suspended_.begin());
  try {
    return lease_of(
        ask("claim_resumed_execution",
            {{"execution", execution}, {"lane", options_.lane}, {"as", kHandle}, {"ttl_ms", kLeaseMs}},
            execution));
  } catch (const FlowFabricError&) {
    suspended_.push_back(execution);  // not yet, or never again
    if (suspended_.size() > kMostRemembered) suspended_.erase(suspended_.begin());
    return std::nullopt;
  }
}

// --- Under a lease --------------------------------------------------------------------------------------------------

void RealWorker::carry_on(const Lease& lease) {
  if (wait_for_children(lease)) return;
  switch (dice_.below(16)) {
    case 0:
    case 1:
      return fail(lease, "transient");
    case 2:
      return fail(lease, "permanent");
    case 3:
      step(lease, "delay", {{"delay_in_ms", 300}});
      return;
    case 4:
    case 5:
      return suspend(lease);
    case 6:
    case 7:
    case 8:
      return die(lease);
    case 9:
      return die_in_the_middle(lease);
    case 10:
    case 11:
      if (!step(lease, "progress", {{"percent", 50}})) return;
      std::this_thread::sleep_for(Milliseconds{dice_.below(kLongestPauseMs)});
      if (!step(lease, "renew")) return;
      break;
    default:
      break;
  }
  if (step(lease, "complete")) record_.ended(lease.execution, "success");
}

void RealWorker::fail(const Lease& lease, const char* failure_class) {
  const auto told = step(lease, "fail", {{"class", failure_class}});
  if (told && told->at("outcome") == "failed") record_.ended(lease.execution, "failed");
}

// Of those that it knows, each once.
bool RealWorker::wait_for_children(const Lease& lease) {
  if (std::erase(parents_, lease.execution) == 0) return false;
  step(lease, "wait_children");
  return true;
}

void RealWorker::suspend(const Lease& lease) {
  static constexpr const char* kBehaviors[] = {"fail", "cancel", "expire", "escalate",
                                               "auto_resume_with_timeout_signal"};
  if (dice_.chance(30) && !step(lease, "create_waitpoint", {{"key", "never used"}, {"expires_in_ms", 500}}))
    return;
  const char* behavior = kBehaviors[dice_.below(5)];
  if (step(lease, "suspend", {{"timeout_in_ms", 400}, {"timeout_behavior", behavior}}) &&
      behavior == std::string_view("auto_resume_with_timeout_signal"))
    suspended_.push_back(lease.execution);
}

void RealWorker::die(const Lease& lease) {
  process_.reset();
  record_.left_behind(lease.execution);
  if (dice_.chance(50)) ghosts_.push_back(lease);
}

// Its step is under way, or done already, or was never sent.
void RealWorker::die_in_the_middle(const Lease& lease) {
  try {
    process_->call("complete", {{"handle", kHandle}}, Milliseconds{dice_.below(5)});
    record_.ended(lease.execution, "success");
  } catch (const FlowFabricError& error) {
    if (!is_refusal(error) && !is_of_the_way(error)) throw;
    if (is_refusal(error))
      record_.refused(lease.execution);
    else
      record_.unheard(lease.execution);
  } catch (const std::runtime_error&) {
    record_.unheard(lease.execution);
  }
  process_.reset();
}

// --- Too late -------------------------------------------------------------------------------------------------------

// Once its lease was taken, the one that had it tries to go on.
void RealWorker::come_back_late() {
  if (ghosts_.empty()) return;
  const Lease lease = ghosts_.front();
  std::rotate(ghosts_.begin(), ghosts_.begin() + 1, ghosts_.end());
  if (!is_taken(lease)) return;
  std::erase_if(ghosts_, [&](const Lease& one) {
    return one.execution == lease.execution && one.epoch == lease.epoch;
  });
  remake_handle(lease, "late", kLeaseMs);
  try {
    ask("complete", {{"handle", "late"}});
    record_.came_back_late(lease.execution, false);
  } catch (const FlowFabricError&) {
    record_.came_back_late(lease.execution, true);
  }
}

bool RealWorker::is_taken(const Lease& lease) const {
  try {
    auto db = options_.connector->connect(Clock::system().now() + test::kConnectTime);
    const pg::Result attempt = db.execute(
        "SELECT lease_epoch > $3 OR lease_expires_at_ms IS NULL FROM ff_attempt"
        " WHERE partition_key = substring($1 from '\\d+')::smallint"
        " AND execution_id = split_part($1, ':', 3)::uuid AND attempt_index = $2",
        pg::Params::of(lease.execution, lease.attempt, lease.epoch));
    return !attempt.empty() && attempt[0].get<bool>(0);
  } catch (const pg::Error& error) {
    if (!simulation::is_an_outage(error)) throw;
    return false;
  }
}

void RealWorker::remake_handle(const Lease& lease, const char* as, std::int64_t ttl_ms) {
  ask("remake_handle", {{"execution", lease.execution},
                        {"lane", options_.lane},
                        {"attempt", lease.attempt},
                        {"epoch", lease.epoch},
                        {"ttl_ms", ttl_ms},
                        {"as", as}});
}

// --- One that lives -------------------------------------------------------------------------------------------------

void RealWorker::hold(const std::stop_token& stop) {
  std::optional<Lease> lease;
  for (bool held = true; held && !stop.stop_requested();) {
    try {
      if (lease) {
        remake_handle(*lease, kHandle, kHeldLease.count());
      } else {
        create(Json::object());
        lease = lease_of(
            ask("claim", {{"lane", options_.lane}, {"as", kHandle}, {"ttl_ms", kHeldLease.count()}}));
        if (lease) record_.holds();
      }
      held = !lease || keep_renewing(*lease, stop);
    } catch (const Unheard&) {
      std::this_thread::sleep_for(kBetweenProcesses);
    }
  }
}

bool RealWorker::keep_renewing(const Lease& lease, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      ask("renew", {{"handle", kHandle}});
    } catch (const FlowFabricError&) {
      record_.robbed(lease.execution);
      return false;
    }
    std::this_thread::sleep_for(kHeldLease / 10);
  }
  return true;
}

// --- The process ----------------------------------------------------------------------------------------------------

std::optional<Json> RealWorker::step(const Lease& lease, std::string_view operation, Json arguments) {
  arguments["handle"] = kHandle;
  try {
    return ask(operation, std::move(arguments), lease.execution);
  } catch (const FlowFabricError&) {
    record_.refused(lease.execution);
    return std::nullopt;
  }
}

// It has begun once it answers, even if only to make a handle of nothing.
void RealWorker::start() {
  auto process = std::make_unique<FlowFabric>(
      options_.url(),
      std::vector<std::string>{"--flow-partitions", std::to_string(kPartitions), "--seed",
                               std::to_string(dice_.next())},
      options_.outages ? FlowFabric::Complaints::nowhere : FlowFabric::Complaints::to_standard_error);
  process->call("remake_handle",
                {{"execution", "{fp:0}:00000000-0000-0000-0000-000000000000"}, {"attempt", 0}, {"epoch", 0}},
                kStartTime);
  process_ = std::move(process);
}

Json RealWorker::ask(std::string_view operation, Json arguments, const std::string& execution) {
  const std::string text = arguments.dump();
  bool sent = false;
  try {
    if (!process_) start();
    sent = true;
    return process_->call(operation, std::move(arguments), options_.patience);
  } catch (const FlowFabricError& error) {
    if (is_refusal(error)) throw;
    if (!options_.outages || !is_of_the_way(error))
      throw std::runtime_error(std::string(error.what()) + ": " + text);
  } catch (const std::runtime_error&) {
    if (!options_.outages) throw;
  }
  process_.reset();
  if (sent && !execution.empty())
    record_.unheard(execution);
  else if (sent && operation == "claim")
    record_.unheard_claim();
  throw Unheard{};
}

}  // namespace ff::faults
