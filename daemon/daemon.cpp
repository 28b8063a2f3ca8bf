#include "daemon.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "build_info.hpp"
#include "check/replicas.hpp"
#include "config/options.hpp"
#include "config/print.hpp"
#include "configuration.hpp"
#include "pasted.hpp"
#include "pg/server.hpp"
#include "way_to_lift.hpp"

namespace ff::daemon {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kPageRenewed = 10s;
// What takes milliseconds to make, and probes wait behind: five times a second leaves them the thread, and is often enough for
// a person and for a scraper that comes every few seconds.
constexpr Milliseconds kKept = 200ms;

metrics::Description description(const config::Config& config) {
  metrics::Description description;
  for (const reconcile::Reconciler& r : reconcile::registry()) {
    const auto outcomes = reconcile::all_outcomes(r);
    description.reconcilers.push_back({std::string(r.name), {outcomes.begin(), outcomes.end()}});
    if (reconcile::gives_back(r)) description.giving_back.emplace_back(r.name);
  }
  description.build = {kVersion, kRevision, kCompiler, pg::libpq_version()};
  description.pool_size = config.database.pool_size;
  description.per_partition = config.metrics.per_partition;
  description.partitions = format_choice(config.partitions);
  description.config_hash = config::fingerprint(config, reconciler_decls());
  return description;
}

// Companions keep an interval of their own, unless even the first pair is scanned less often.
supervisor::Timing timing_of(const config::Config& config, const config::Reconciler& its,
                             const reconcile::Reconciler& reconciler) {
  supervisor::Timing timing{its.enabled, its.interval};
  const reconcile::Family family = family_of(config);
  for (const reconcile::Reconciler& companion : reconciler.companions)
    if (!companion.wanted(family))
      continue;
    else if (companion.is_shortcut)
      timing.shortcuts = companion.interval;
    else
      timing.companions =
          std::max({timing.companions.value_or(Milliseconds{0}), companion.interval, its.interval});
  timing.wakes = reconciler.wakes;
  return timing;
}

// A tick stops starting batches after its budget; the last one may wait for a connection and run into its
// time-out.
Milliseconds longest_tick(const config::Config& config) {
  return supervisor::kTickBudget + config.database.acquire_timeout + 2 * config.database.statement_timeout;
}

HttpReply json(int status, std::string body) {
  return {status, "application/json", std::move(body) + "\n"};
}

HttpReply kept(HttpReply reply) {
  reply.kept_for = kKept;
  return reply;
}

}  // namespace

void Daemon::Observers::tick_started(const supervisor::TickStart& start) {
  metrics.tick_started(start);
  board.tick_started(start);
}

void Daemon::Observers::tick_finished(const supervisor::TickEvent& event) {
  metrics.tick_finished(event);
  board.tick_finished(event);
  chronicle.tick_finished(event);
}

void Daemon::Observers::state_changed(supervisor::State state, const std::string& reason) {
  metrics.state_changed(state, reason);
  board.state_changed(state, reason);
  chronicle.state_changed(state, reason);
}

void Daemon::Observers::schema_version(int version) {
  metrics.schema_version(version);
  board.schema_version(version);
}

void Daemon::Observers::pauses_changed(const std::vector<pause::Pause>& in_force) {
  metrics.pauses_changed(in_force);
  board.pauses_changed(in_force);
  chronicle.pauses_changed(in_force);
}

void Daemon::Observers::pauses_unread(const std::string& why) {
  metrics.pauses_unread(why);
  board.pauses_unread(why);
  chronicle.pauses_unread(why);
}

Daemon::Member::Member(const reconcile::Reconciler& reconciler, const reconcile::Scope& scope,
                       supervisor::Timing timing, Daemon& daemon)
    : engine(reconciler, scope, daemon.pool_, daemon.clock_, daemon.fork_join_),
      runner(
          std::string(reconciler.name), reconciler.takes_leases, std::move(timing),
          [this, &daemon](const reconcile::TickOptions& options) { return tick(daemon, options); },
          {.first =
               [this, &daemon](SteadyTime since) {
                 return engine.reconciler().announced(engine.scope().settings)
                            ? none_announced(engine.reconciler(), daemon.notifications_, since)
                            : daemon.snapshots_.nothing_written_since(since);
               },
           .companions =
               [&daemon](SteadyTime since) { return daemon.snapshots_.nothing_written_since(since); },
           .shortcuts =
               [this, &daemon](SteadyTime since) {
                 return std::ranges::all_of(engine.reconciler().companions, [&](const auto& companion) {
                   return !companion.is_shortcut || none_announced(companion, daemon.notifications_, since);
                 });
               }},
          daemon.observers_, daemon.clock_, Pasted(daemon.config_file_)(way_to_release(reconciler.name))) {}

reconcile::TickReport Daemon::Member::tick(Daemon& daemon, reconcile::TickOptions options) {
  options.may_write = [this, &daemon] {
    return !daemon.pauses_.hold(runner.name()) &&
           (!runner.takes_leases() || daemon.monitor_.may_take_leases());
  };
  options.told_time = [&daemon](const reconcile::TimeReading& reading) {
    daemon.monitor_.told_time(reading);
  };
  if (runner.takes_leases()) {
    options.met_full_disk = [&daemon] { daemon.monitor_.met_full_disk(); };
    options.found_room = [&daemon] { return daemon.monitor_.found_room(); };
  }
  options.released = [this, &daemon](UnixMillis since) {
    return daemon.releases_.of(runner.name(), since, runner.timing().interval).has_value();
  };
  options.storm = &daemon.storm_;
  options.tell = daemon.action_log_.teller();
  reconcile::TickReport report = engine.tick(options);
  if (report.failure && report.failure->schema_mismatch() && daemon.probe_.doubt_schema())
    daemon.monitor_.check_soon();
  if (report.failure && runner.takes_leases()) suspect_lock(daemon, *report.failure);
  return report;
}

// What has kept a tick waiting may keep workers from renewing. Of a statement that was given up only the locks themselves tell.
void Daemon::Member::suspect_lock(Daemon& daemon, const pg::Error& failure) {
  if (!failure.table_locked() && !failure.canceled()) return;
  daemon.probe_.doubt_locks();
  if (failure.table_locked())
    daemon.monitor_.met_lock();
  else
    daemon.monitor_.check_soon();
}

bool Daemon::Member::none_announced(const reconcile::Reconciler& pair,
                                    const supervisor::Notifications& notifications, SteadyTime since) const {
  const auto announced = pair.announced(engine.scope().settings);
  return announced && notifications.none_since(announced->channel, since - announced->within);
}

Daemon::Daemon(config::Config config, std::string config_file)
    : config_(std::move(config)),
      config_file_(std::move(config_file)),
      current_(config_),
      metrics_(description(config_), clock_),
      board_(clock_),
      action_log_(config_.log.actions),
      chronicle_(clock_),
      observers_(metrics_, board_, chronicle_),
      connector_(make_connector(config_.database, check::session_name(kVersion, config_.partitions))),
      pool_(connector_, config_.database.pool_size, config_.database.acquire_timeout, &interrupt_,
            &pool_events_),
      snapshots_(pool_, clock_),
      storm_(storm_settings(config_.storm), clock_),
      probe_(
          pool_, config_.partitions, [this](const pg::Error& error) { metrics_.database_error(error); },
          [this] {
            monitor_.check_now();
            notifications_.renew();
          },
          [this](const Coverage& coverage) { set_coverage(coverage); },
          [this](pg::Connection& connection) {
            pause_watch_.poll(connection);
            release_watch_.poll(connection);
            read_storm(connection);
          },
          [this](UnixMillis started_at) { notifications_.server_is(started_at); }),
      monitor_(
          config_.recovery_grace, [this] { return probe_(); }, observers_, clock_),
      notifications_(connector_,
                     {std::string(reconcile::kLeaseChannel), std::string(reconcile::kCompletionChannel),
                      std::string(pause::kChannel)},
                     [this](std::string_view channel) {
                       if (channel == pause::kChannel) monitor_.check_soon();
                     }),
      fork_join_(config_.helpers),
      members_(make_members()),
      supervisor_(runners(), config_.threads, monitor_, longest_tick(config_), clock_, &pauses_),
      http_(http_io_, config_.http.host, static_cast<unsigned short>(config_.http.port), routes(), {},
            [this] { metrics_.http_connection_displaced(); }),
      http_port_(http_.port()) {
  metrics_.watch_pool([this] { return pool_.state(); });
  metrics_.watch_storm([this] { return storm_.view(); });
  for (const config::Reconciler& its : config_.reconcilers) board_.reconciler_enabled(its.name, its.enabled);
  http_thread_ = std::jthread([this] { http_io_.run(); });
}

Daemon::~Daemon() {
  http_io_.stop();
  metrics_.watch_pool(nullptr);
  metrics_.watch_storm(nullptr);
}

std::vector<std::unique_ptr<Daemon::Member>> Daemon::make_members() {
  std::vector<std::unique_ptr<Member>> members;
  for (const config::Reconciler& its : config_.reconcilers) {
    const reconcile::Reconciler* reconciler = reconcile::find_reconciler(its.name);
    members.push_back(std::make_unique<Member>(*reconciler, scope_of(config_, its, {}),
                                               timing_of(config_, its, *reconciler), *this));
  }
  return members;
}

std::vector<supervisor::Runner*> Daemon::runners() const {
  std::vector<supervisor::Runner*> all;
  for (const auto& member : members_) all.push_back(&member->runner);
  return all;
}

Routes Daemon::routes() {
  return {{"/", [this] { return kept(page()); }},
          {"/live", [this] { return kept(page(kPageRenewed)); }},
          {"/metrics",
           [this] {
             return kept({200, metrics::kContentType, metrics_.scrape()});
           }},
          {"/livez",
           [this] { return alive() ? json(200, R"({"alive":true})") : json(503, R"({"alive":false})"); }},
          {"/readyz",
           [this] {
             const bool faulty = config_.http.unready_on_fault && board_.has_fault();
             return json(board_.ready() && !faulty ? 200 : 503, board_.readiness_json());
           }},
          {"/status", [this] {
             return kept(json(200, board_.status_json(pool_.state(), recovering_until(), storm_.view())));
           }}};
}

void Daemon::start() {
  spdlog::info("ff-reconcilerd {} serves http on {}:{}, database {}, partitions {}", kVersion,
               config_.http.host, http_port_, connector_.description(), format_choice(config_.partitions));
  notifications_.start();
  supervisor_.start();
}

void Daemon::stop() {
  observers_.state_changed(supervisor::State::stopping, "the daemon was asked to stop");
  const auto late = supervisor_.drain(clock_.now() + config_.shutdown.grace);
  for (const std::string& name : late)
    spdlog::warn("{} did not finish within {} s: its statement is cancelled", name,
                 seconds(config_.shutdown.grace));
  interrupt_.raise();
  supervisor_.join();
  notifications_.stop();
}

void Daemon::set_coverage(const Coverage& coverage) {
  if (!coverage.left_out.empty())
    spdlog::info("partitions {} of {} are left to other daemons", format_partitions(coverage.left_out),
                 coverage.count);
  metrics_.partitions(coverage);
  board_.partitions(coverage);
  const std::lock_guard lock(mutex_);
  covered_ = coverage.covered;
  tell_members();
}

// Both what they are told of, the configuration and the partitions, can change at any time.
void Daemon::tell_members() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const config::Reconciler& its = current_.reconcilers[i];
    Member& member = *members_[i];
    if (!its.enabled) member.was_off = true;
    member.runner.change(timing_of(current_, its, member.engine.reconciler()),
                         [&member, scope = scope_of(current_, its, covered_)] {
                           // Whoever released what was due then knows nothing of what is due now.
                           if (member.was_off.exchange(false)) member.engine.forget_hold();
                           member.engine.set_scope(scope);
                         });
    metrics_.reconciler_enabled(its.name, its.enabled);
    board_.reconciler_enabled(its.name, its.enabled);
  }
}

// Whoever goes on has been parked without a timer.
void Daemon::pauses_changed(const std::vector<pause::Pause>& in_force) {
  observers_.pauses_changed(in_force);
  supervisor_.reconsider_parked();
}

// As lease_expiry sees them, or who else takes leases.
void Daemon::read_storm(pg::Connection& connection) {
  ScannerFilter filter;
  Partitions covered;
  {
    const std::lock_guard lock(mutex_);
    covered = covered_;
    for (const config::Reconciler& its : current_.reconcilers) {
      if (its.name == "lease_expiry") filter = its.filter;
      if (!its.enabled) storm_.forget(its.name);  // its last tick may have ended after it was switched off
    }
  }
  storm_watch_.poll(connection, covered, filter);
}

std::vector<std::string> Daemon::reload(config::Config wanted) {
  auto restart = config::restart_needed(config_, wanted);
  const std::uint64_t hash = config::fingerprint(wanted, reconciler_decls());
  action_log_.turn(wanted.log.actions);
  {
    const std::lock_guard lock(mutex_);
    current_ = std::move(wanted);
    reload_refused_ = false;
    tell_members();
    storm_.configure(storm_settings(current_.storm));
  }
  supervisor_.reconsider();
  metrics_.config_reloaded(hash);
  chronicle_.note(page::Severity::fine, "configuration", "reloaded");
  return restart;
}

void Daemon::reload_failed() {
  metrics_.config_reloaded(std::nullopt);
  {
    const std::lock_guard lock(mutex_);
    reload_refused_ = true;
  }
  chronicle_.note(page::Severity::warning, "configuration", "refused at a reload: the earlier one holds");
}

}  // namespace ff::daemon
