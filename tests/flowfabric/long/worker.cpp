#include "long/worker.hpp"

#include <algorithm>
#include <csignal>
#include <limits>
#include <thread>

namespace ff::test {
namespace {

/// A unit of a history's time is this long here: leases live for one to five of them.
constexpr std::int64_t kRealUnitMs = 400;
constexpr int kLongestPauseMs = 10;
/// So that what the database's clock says of a deed lies between this one and the next.
constexpr Milliseconds kBetweenDeeds{2};

std::int64_t in_real_time(std::int64_t ms) {
  return ms * kRealUnitMs / kUnitMs;
}

Step in_real_time(Step step) {
  for (auto& [field, value] : step.items())
    if (field.ends_with("_ms") && value.is_number()) value = in_real_time(value.get<std::int64_t>());
  return step;
}

// Time and the daemon are the world's business here. What is reported without an execution leaves no trace by which
// it could be told, afterwards, before or after which reset it was.
bool is_left_out(const std::string& what) {
  for (const char* one : {"age", "tick", "cut", "kill", "report_usage", "report_usage_admin", "reset_budget"})
    if (what == one) return true;
  return false;
}

std::int64_t wall_ms() {
  return count(Clock::system().wall());
}

}  // namespace

Worker::Worker(SharedState& shared, Options options)
    : shared_(shared),
      options_(std::move(options)),
      dice_(options_.seed),
      connection_(options_.connector->connect(Clock::system().now() + Milliseconds{10'000})) {}

void Worker::work(const std::atomic<bool>& over) {
  start();
  Generator generator(*this, {.seed = dice_.next(),
                              .executions = std::numeric_limits<int>::max(),
                              .prefix = std::to_string(options_.number) + '-'});
  while (!over) {
    look_round();
    try {
      generator.next();
    } catch (const Died&) {
      come_back();
    }
    std::this_thread::sleep_for(Milliseconds{dice_.below(kLongestPauseMs)});
  }
  const std::lock_guard lock(mutex_);
  process_.reset();
}

bool Worker::kill() {
  const std::lock_guard lock(mutex_);
  if (!process_ || killed_) return false;
  killed_ = true;
  ::kill(process_->pid(), SIGKILL);
  return true;
}

void Worker::look_round() {
  std::vector<std::string> mine;
  for (const Lease& lease : leases_)
    if (!lease.given_up && lease.ends_at_ms > wall_ms()) mine.push_back(lease.execution);
  in_play_ = shared_.in_play(mine);
  flows_ = shared_.flows();
  budgets_ = shared_.budgets();
  quotas_ = shared_.quotas();
}

void Worker::start() {
  who_ = "worker-" + std::to_string(options_.number) + '.' + std::to_string(++lives_);
  auto process =
      std::make_unique<FlowFabric>(options_.url + "&application_name=" + who_,
                                   std::vector<std::string>{"--seed", std::to_string(dice_.next())});
  const std::lock_guard lock(mutex_);
  process_ = std::move(process);
  killed_ = false;
}

// Half of the leases that it had were kept somewhere, the others are forgotten.
void Worker::come_back() {
  {
    const std::lock_guard lock(mutex_);
    process_.reset();
  }
  start();
  std::vector<Lease> kept;
  try {
    for (const Lease& lease : leases_)
      if (dice_.chance(50) && remakes(lease)) kept.push_back(lease);
    leases_ = std::move(kept);
  } catch (const Died&) {
    leases_.clear();
    come_back();
  }
}

bool Worker::remakes(const Lease& lease) {
  if (lease.given_up) return false;
  Deed deed{.who = who_, .step = {{"do", "remake_handle"}, {"execution", lease.execution}}};
  auto request = shared_.resolved(deed.step);
  (*request)["attempt"] = lease.attempt;
  (*request)["epoch"] = lease.epoch;
  (*request)["ttl_ms"] = in_real_time(lease.ttl_ms);
  (*request)["as"] = lease.handle;
  if (ask(deed, std::move(*request))) return true;
  throw Died();
}

bool Worker::perform(const Step& step) {
  const std::string what = step.at("do");
  if (is_left_out(what)) return false;
  Deed deed{.who = who_, .step = in_real_time(step)};
  auto request = shared_.resolved(deed.step);
  if (!request) return false;
  deed.execution = step.value("execution", step.value("upstream", ""));
  if (step.contains("edge")) deed.execution = shared_.upstream_of(step.at("edge"));
  if (step.contains("handle")) {
    const Lease* lease = lease_named(step.at("handle"));
    if (lease == nullptr) return false;
    deed.lease = *lease;
    deed.execution = lease->execution;
    if (!lease->given_up) deed.held_at_ms = held_at_.at(lease->handle);
  }
  std::this_thread::sleep_for(kBetweenDeeds);
  const bool done = ask(deed, std::move(*request));
  deeds_.push_back(deed);
  if (deed.outcome == Deed::Outcome::unknown) throw Died();
  if (done) learn(step, deed);
  if (deed.outcome == Deed::Outcome::refused && step.contains("handle"))
    lease_named(step.at("handle"))->given_up = true;
  return done;
}

bool Worker::ask(Deed& deed, Json request) {
  deed.sent_ms = wall_ms();
  try {
    deed.told = process_->call(deed.step.at("do").get<std::string>(), std::move(request));
    deed.outcome = deed.told.is_null() ? Deed::Outcome::nothing : Deed::Outcome::done;
  } catch (const FlowFabricError& error) {
    if (error.kind() == "Usage") throw;
    deed.outcome = Deed::Outcome::refused;
    deed.refusal = error.kind();
  } catch (const std::runtime_error&) {
    const std::lock_guard lock(mutex_);
    if (!killed_) throw;
  }
  deed.answered_ms = wall_ms();
  return deed.outcome == Deed::Outcome::done;
}

void Worker::learn(const Step& step, const Deed& deed) {
  const std::string what = step.at("do");
  shared_.learn(deed.step, deed.told, deed.execution);
  budgets_ = shared_.budgets();  // the next step of the same idea may want a new one
  quotas_ = shared_.quotas();
  Lease* lease = nullptr;
  if (claims(what) && deed.told.contains("epoch")) {
    leases_.push_back({.handle = step.at("as"),
                       .execution = deed.execution,
                       .attempt = deed.told.at("attempt"),
                       .epoch = deed.told.at("epoch"),
                       .ttl_ms = step.at("ttl_ms")});
    lease = &leases_.back();
  } else if (step.contains("handle")) {
    lease = lease_named(step.at("handle"));
    if (gives_up(what)) lease->given_up = true;
  }
  if (lease == nullptr) return;
  held_at_[lease->handle] = deed.sent_ms;
  if (claims(what) || what == "renew" || what == "renew_lease")
    lease->ends_at_ms = deed.sent_ms + in_real_time(lease->ttl_ms);
}

ExecutionRows Worker::rows_of(const std::string& execution) {
  return read_rows(connection_, shared_.uuid_of(execution));
}

Lease* Worker::lease_named(const std::string& handle) {
  const auto found =
      std::find_if(leases_.rbegin(), leases_.rend(), [&](const Lease& l) { return l.handle == handle; });
  return found == leases_.rend() ? nullptr : &*found;
}

}  // namespace ff::test
