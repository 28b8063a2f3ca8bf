#include "demo/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "config/options.hpp"
#include "configuration.hpp"
#include "demo/signals.hpp"
#include "http_server.hpp"

namespace ff::daemon {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kLease = 1200ms;
constexpr Milliseconds kRecoveryGrace = 3s;
constexpr Milliseconds kShutdownGrace = 2s;
constexpr Milliseconds kPatience = 25s;
constexpr Milliseconds kLongestInterval = 1s;
constexpr Milliseconds kStaleThreshold = 200ms;
constexpr Milliseconds kBetweenScans = 500ms;
constexpr std::size_t kHappenings = 40;
constexpr PartitionKey kLastPartition{15};

simulation::Realm realm_in(const DemoDatabase& database) {
  std::string name = "demo";
  if (!database.is_private()) name += fmt::format("-{:08x}", std::random_device{}());
  return {name, partition_range(PartitionKey{0}, kLastPartition)};
}

const reconcile::Reconciler& known(const std::string& name) {
  return *reconcile::find_reconciler(name);
}

// The sum of processed_total in the text that Prometheus reads; without outcomes, of all that the
// reconciler counts as processed.
std::int64_t processed_in(std::string_view metrics, const reconcile::Reconciler& reconciler,
                          const std::vector<std::string>& outcomes) {
  std::int64_t sum = 0;
  while (!metrics.empty()) {
    const std::string_view line = metrics.substr(0, metrics.find('\n'));
    metrics.remove_prefix(std::min(line.size() + 1, metrics.size()));
    if (!line.starts_with("ff_reconciler_processed_total{")) continue;
    const auto has = [&](std::string_view label, std::string_view value) {
      return line.find(fmt::format("{}=\"{}\"", label, value)) != line.npos;
    };
    const auto is_left_alone = [&](const reconcile::Outcome& outcome) {
      return outcome.effect == reconcile::Effect::left_alone && has("outcome", outcome.name);
    };
    const auto is_of = [&](std::string_view outcome) { return has("outcome", outcome); };
    const bool counts = outcomes.empty() ? std::ranges::none_of(reconciler.outcomes, is_left_alone)
                                         : std::ranges::any_of(outcomes, is_of);
    if (has("reconciler", reconciler.name) && counts)
      sum += std::stoll(std::string(line.substr(line.rfind(' ') + 1)));
  }
  return sum;
}

}  // namespace

DemoSystem::DemoSystem(DemoDatabase& database, std::optional<Milliseconds> length)
    : database_(database),
      length_(length),
      started_(Clock::system().now()),
      realm_(realm_in(database)),
      connection_(database.connector().connect(started_ + database.config().acquire_timeout)) {
  simulation::Past past;
  if (database.is_private()) past = simulation::make_past(connection_, realm_);
  const SignalsHeld held;
  daemon_ = std::make_unique<Daemon>(daemon_config());
  daemon_runs_ = true;
  daemon_->start();
  simulation::WorkloadOptions work;
  work.name = realm_.name;
  work.partitions = realm_.partitions;
  work.lease_ttl = kLease;
  work.budgets = database.is_private();
  work.short_lived = database.is_private();
  work.silent_workers = database.is_private();
  work.cancelled_flows = true;
  work.past = past;
  workload_ = std::make_unique<simulation::Workload>(database.connector(), work);
}

DemoSystem::~DemoSystem() {
  workload_.reset();
  stop_daemon();
}

// The defaults of `run`, but for what makes it quick to watch and keeps it to its own executions.
config::Config DemoSystem::daemon_config() const {
  config::Config config = config::defaults(reconciler_decls());
  config.database = database_.config();
  config.partitions = realm_.partitions;
  config.filter.name_space = realm_.name;
  config.recovery_grace = kRecoveryGrace;
  config.http = {"127.0.0.1", 0};
  config.shutdown.grace = kShutdownGrace;
  for (config::Reconciler& its : config.reconcilers) {
    const reconcile::Reconciler& reconciler = known(its.name);
    if (reconciler.filterable) its.filter = config.filter;
    its.enabled = why_off(reconciler).empty();
    its.interval = std::min(its.interval, kLongestInterval);
    // One crash goes to lease_expiry, the next on the same attempt to attempt_timeout: so both are seen soon.
    if (its.name == "lease_expiry") its.settings["max_reclaims"] = 1;
    // There is no FlowFabric to be waited for. (The backlog of a cancel without members has no namespace.)
    if (its.name == "dependency") its.settings["stale_threshold"] = kStaleThreshold.count();
    if (its.name == "cancel_backlog" && database_.is_private())
      its.settings["grace"] = kStaleThreshold.count();
    if (its.name == "outbox_retention")
      its.settings["retention"] = its.settings["worker_events_retention"] =
          simulation::kEventsKeptFor.count();
  }
  return config;
}

void DemoSystem::poll() {
  const SteadyTime now = Clock::system().now();
  if (now < next_scan_) return;
  census_ = simulation::take_census(connection_, realm_);
  for (const simulation::TakenLease& taken : simulation::taken_leases(connection_, realm_, last_taken_)) {
    last_taken_ = taken.event_id;
    const std::string execution = taken.execution.substr(0, 8);
    workload_->tell(taken.by_deadline ? execution + " ran past its deadline: the daemon ended it"
                                      : "the lease of " + execution + " lapsed: the daemon took it back");
  }
  const SteadyTime done = Clock::system().now();
  constexpr int kRestForEachScan = 10;
  next_scan_ = done + std::max<SteadyTime::duration>(kBetweenScans, kRestForEachScan * (done - now));
}

// What has no namespace may belong to others; and what is off by default is theirs to decide: what callers have repeated is
// deleted with an execution, and a worker may be silent for good reasons.
std::string DemoSystem::why_off(const reconcile::Reconciler& reconciler) const {
  if (database_.is_private() || (reconciler.filterable && reconciler.on_by_default)) return "";
  return "it may touch what belongs to others";
}

Scene DemoSystem::scene() {
  poll();
  Scene scene;
  scene.now = Clock::system().now();
  scene.elapsed = std::chrono::duration_cast<Milliseconds>(scene.now - started_);
  scene.length = length_;
  scene.state = name(daemon_->board().state());
  scene.database = database_.description();
  scene.metrics_url = metrics_url();
  scene.private_database = database_.is_private();
  scene.lease_ttl = kLease;
  std::map<std::string, std::int64_t> moved;
  const auto totals = daemon_->board().totals();
  for (const reconcile::Reconciler& reconciler : reconcile::registry()) {
    Scene::Reconciler its{std::string(reconciler.name), reconciler.takes_leases, why_off(reconciler), {}, 0};
    if (const auto found = totals.find(its.name); found != totals.end()) its.totals = found->second;
    for (const reconcile::Outcome& outcome : reconciler.outcomes)
      if (outcome.effect == reconcile::Effect::left_alone)
        its.totals.outcomes.erase(std::string(outcome.name));
    moved[its.name] = its.totals.processed;
    scene.reconcilers.push_back(std::move(its));
  }
  rates_.observe(scene.now, moved);
  for (Scene::Reconciler& its : scene.reconcilers) its.rate = rates_.of(its.name);
  scene.workers = workload_->workers();
  scene.work = workload_->ledger().counts();
  scene.census = census_;
  scene.latest = workload_->latest(kHappenings);
  return scene;
}

void DemoSystem::finish() {
  workload_->finish();
}

bool DemoSystem::settled() {
  return workload_->ended() &&
         (!workload_->errors().empty() ||
          (simulation::open_work(connection_, realm_, database_.is_private()).total() == 0 &&
           past_is_over()));
}

bool DemoSystem::past_is_over() {
  const simulation::Past left = simulation::left_of_past(connection_, realm_);
  return left.events + left.admissions == 0;
}

Milliseconds DemoSystem::longest_settling() const {
  constexpr int kLeasesOfTheLongestWork = 3;
  return kLeasesOfTheLongestWork * kLease + kRecoveryGrace + kPatience;
}

void DemoSystem::stop_daemon() {
  if (!daemon_runs_) return;
  daemon_runs_ = false;
  daemon_->stop();
}

std::vector<simulation::Verdict> DemoSystem::close_books() {
  if (!workload_->ended())
    throw std::runtime_error("the simulated workers have not ended in time: nothing can be compared");
  stop_daemon();
  std::string metrics;
  const int status = http_get_status("127.0.0.1", daemon_->http_port(), "/metrics", 5s, &metrics);
  if (status != 200) throw std::runtime_error(fmt::format("/metrics answers {}", status));
  simulation::Books books =
      simulation::check_books(connection_, realm_, workload_->ledger(), database_.is_private());
  for (const simulation::Tally& tally : books.tallies)
    books.verdicts.push_back(compare_metrics(metrics, tally));
  next_scan_ = {};
  return std::move(books.verdicts);
}

simulation::Verdict DemoSystem::compare_metrics(const std::string& metrics,
                                                const simulation::Tally& tally) const {
  using Compare = simulation::Tally::Compare;
  std::int64_t said = processed_in(metrics, known(tally.reconciler), tally.outcomes);
  for (const std::string& other : tally.others) said += processed_in(metrics, known(other), tally.outcomes);
  simulation::Verdict verdict{.question = "/metrics of " + tally.reconciler};
  const char* bound = tally.compare == Compare::at_least  ? "at least "
                      : tally.compare == Compare::at_most ? "at most "
                                                          : "";
  verdict.numbers = fmt::format("{} for {}{} {}", said, bound, tally.number, tally.what);
  verdict.balanced = said == tally.number || (tally.compare == Compare::at_least && said > tally.number) ||
                     (tally.compare == Compare::at_most && said < tally.number);
  if (!verdict.balanced && !database_.is_private() && said < tally.number) {
    verdict.balanced = true;
    verdict.numbers += "; the others by another daemon on this database";
  }
  return verdict;
}

std::string DemoSystem::page_url() const {
  return fmt::format("http://127.0.0.1:{}/", daemon_->http_port());
}

std::string DemoSystem::metrics_url() const {
  return page_url() + "metrics";
}

std::string DemoSystem::remains() const {
  if (database_.is_private()) return "";
  return fmt::format(
      "Left in the database: {} executions of the namespace and lane {}, with their events{}.\n",
      census_.total(), realm_.name, database_.was_empty() ? ", and the schema" : "");
}

}  // namespace ff::daemon
