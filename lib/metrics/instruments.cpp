#include "metrics/instruments.hpp"

#include <algorithm>
#include <iterator>

namespace ff::metrics {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;
using Buckets = Histogram::BucketBoundaries;

// Boundaries in seconds. A tick is one round trip when idle and many batches after an outage; a row is
// ideally taken within milliseconds of its due time, and after an outage hours late.
const Buckets kTickDuration{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
const Buckets kTickStartDelay{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60};
const Buckets kRowLateness{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                           2.5,   5,     10,   30,    60,   300, 900,  3600};
const Buckets kPoolWait{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10};

std::string full_name(const char* name) {
  return std::string("ff_reconciler_") + name;
}

// A help text is written as it is: a line break in it would spoil the exposition.
Family<Counter>& counters(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(full_name(name)).Help(help).Register(registry);
}
Family<Gauge>& gauges(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(full_name(name)).Help(help).Register(registry);
}
Family<Histogram>& histograms(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(full_name(name)).Help(help).Register(registry);
}

std::vector<std::string_view> skip_reasons() {
  std::vector<std::string_view> reasons;
  for (const auto skip : reconcile::kSkips) reasons.push_back(reconcile::name(skip));
  return reasons;
}

constexpr std::string_view kResults[] = {"success", "failure"};

std::map<supervisor::State, Gauge*> state_gauges(Registry& registry) {
  auto& family = gauges(registry, "state", "1 for the state that the daemon is in, 0 for every other.");
  std::map<supervisor::State, Gauge*> states;
  for (const auto state : supervisor::kStates)
    states.emplace(state, &family.Add({{"state", std::string(supervisor::name(state))}}));
  return states;
}

}  // namespace

CounterSet::CounterSet(Family<Counter>& family, prometheus::Labels fixed, std::string label,
                       std::span<const std::string_view> values)
    : family_(family), fixed_(std::move(fixed)), label_(std::move(label)) {
  for (const auto value : values) resolve(value);
}

void CounterSet::add(std::string_view value, std::int64_t count) {
  resolve(value).Increment(static_cast<double>(count));
}

Counter& CounterSet::resolve(std::string_view value) {
  if (const auto found = counters_.find(value); found != counters_.end()) return *found->second;
  auto labels = fixed_;
  labels.emplace(label_, value);
  auto& counter = family_.Add(labels);
  counters_.emplace(value, &counter);
  return counter;
}

ReconcilerFamilies::ReconcilerFamilies(Registry& registry)
    : processed(counters(registry, "processed_total", "Rows whose transition was committed, by outcome.")),
      errors(counters(
          registry, "errors_total",
          "Rows or whole ticks that failed, by SQLSTATE class, timeout, connection, internal or other.")),
      skipped(counters(registry, "skipped_total", "Due rows that a tick left alone, by reason.")),
      ticks(counters(
          registry, "ticks_total",
          "Ticks by result: a failure could not go on, a success did, though single rows may have failed.")),
      ticks_missed(
          counters(registry, "ticks_missed_total",
                   "Whole intervals by which ticks started later than planned: no thread was free.")),
      tick_duration(histograms(registry, "tick_duration_seconds", "How long a tick took.")),
      tick_start_delay(histograms(registry, "tick_start_delay_seconds",
                                  "How long after its planned time a tick started.")),
      row_lateness(histograms(
          registry, "row_lateness_seconds",
          "From when a row could be taken to commit, per processed row, by the clock of the database.")),
      running_since(gauges(registry, "running_since_timestamp_seconds",
                           "When the tick that is under way began, in Unix time; 0 while none is.")),
      last_success(gauges(registry, "last_success_timestamp_seconds",
                          "When the last successful tick ended, in Unix time; 0 before the first.")),
      consecutive_failures(gauges(registry, "consecutive_failures",
                                  "Ticks in a row that failed, of those that scan the same.")),
      due_rows(
          gauges(registry, "due_rows",
                 "Due rows that the last scan has left, or the tick under way has found and not moved; of a "
                 "backlog at least so many.")),
      more_due(gauges(registry, "more_due", "1 where more may be due than due_rows says.")),
      oldest_due(gauges(registry, "oldest_due_timestamp_seconds",
                        "Since when the oldest row that the last scan found due could be taken, in Unix "
                        "time; 0 when none was due.")),
      next_due(
          gauges(registry, "next_due_timestamp_seconds",
                 "When the next row falls due, in Unix time, as the last tick saw it; 0 when it saw none.")),
      quarantined(gauges(registry, "quarantined_rows",
                         "Rows that are left out for a while because they failed on their own.")),
      paused(
          gauges(registry, "paused", "1 while an operator has paused the reconciler, by name or with all.")),
      held(gauges(registry, "held",
                  "1 while more rows are due than hold_above and none is moved until an operator resumes the "
                  "reconciler.")) {}

ReconcilerInstruments::ReconcilerInstruments(const ReconcilerFamilies& families, const std::string& name,
                                             std::span<const std::string_view> outcomes)
    : processed(families.processed, {{"reconciler", name}}, "outcome", outcomes),
      errors(families.errors, {{"reconciler", name}}, "class", pg::error_classes()),
      skipped(families.skipped, {{"reconciler", name}}, "reason", skip_reasons()),
      ticks(families.ticks, {{"reconciler", name}}, "result", kResults),
      ticks_missed(families.ticks_missed.Add({{"reconciler", name}})),
      tick_duration(families.tick_duration.Add({{"reconciler", name}}, kTickDuration)),
      tick_start_delay(families.tick_start_delay.Add({{"reconciler", name}}, kTickStartDelay)),
      row_lateness(families.row_lateness.Add({{"reconciler", name}}, kRowLateness)),
      running_since(families.running_since.Add({{"reconciler", name}})),
      last_success(families.last_success.Add({{"reconciler", name}})),
      consecutive_failures(families.consecutive_failures.Add({{"reconciler", name}})),
      due_rows(families.due_rows.Add({{"reconciler", name}})),
      more_due(families.more_due.Add({{"reconciler", name}})),
      oldest_due(families.oldest_due.Add({{"reconciler", name}})),
      next_due(families.next_due.Add({{"reconciler", name}})),
      quarantined(families.quarantined.Add({{"reconciler", name}})),
      paused(families.paused.Add({{"reconciler", name}})),
      held(families.held.Add({{"reconciler", name}})) {}

void ReconcilerInstruments::observe_lateness(const reconcile::Lateness& lateness) {
  if (lateness.empty()) return;
  // All at once: a batch of a thousand rows takes the histogram's lock once.
  std::vector<double> increments(kRowLateness.size() + 1);
  for (const auto& [late, rows] : lateness.rows_by_lateness()) {
    const auto bucket = std::lower_bound(kRowLateness.begin(), kRowLateness.end(), seconds(late));
    increments[static_cast<std::size_t>(std::distance(kRowLateness.begin(), bucket))] +=
        static_cast<double>(rows);
  }
  // Without the early ones: a sum that can fall would look like a restart.
  row_lateness.ObserveMultiple(increments, seconds(lateness.sum()));
}

void ReconcilerInstruments::show_due() {
  if (!enabled || is_paused) return;
  const std::int64_t in_tick = under_way == nullptr ? 0 : under_way->read().left();
  // What is held was counted as far as it takes to hold it.
  const auto now = reconcile::due_now(left, more || companions_more || is_held, in_tick);
  due_rows.Set(static_cast<double>(now.rows));
  more_due.Set(now.more ? 1 : 0);
}

void ReconcilerInstruments::clear_gauges() {
  left = 0;
  more = companions_more = is_held = false;
  for (auto* gauge :
       {&consecutive_failures, &due_rows, &more_due, &oldest_due, &next_due, &quarantined, &held})
    gauge->Set(0);
}

StormInstruments::StormInstruments(Registry& registry, const Description& description)
    : rate(gauges(registry, "storm_rate", "Rows a second that may be given back at most; 0: no limit.")
               .Add({})),
      queued_rows(
          gauges(registry, "storm_queued_rows",
                 "Due rows that wait because no more may be given back, as far as they have been read.")),
      held(gauges(registry, "storm_held_rows",
                  "Lapsed leases, as counted when the breaker opened, that are not taken while it is.")
               .Add({})),
      leases(gauges(registry, "leases", "Leases that there are, as last counted once a minute.").Add({})),
      leases_lapsed_share(gauges(registry, "leases_lapsed_share",
                                 "Of all leases, those that have lapsed and are not taken, or were lately.")
                              .Add({})),
      holders_lapsed_share(gauges(registry, "holders_lapsed_share",
                                  "Of all worker instances with leases, those of whom such have lapsed.")
                               .Add({})),
      trips(counters(registry, "storm_trips_total", "Times that the breaker has opened.").Add({})) {
  auto& family =
      gauges(registry, "storm_state", "1 for the state that the breaker is in, 0 for every other.");
  for (const auto state : reconcile::kBreakerStates)
    states.emplace(state, &family.Add({{"state", std::string(reconcile::name(state))}}));
  switched_off = &family.Add({{"state", "off"}});
  auto& released = counters(registry, "storm_releases_total", "Times that an open breaker let go, by how.");
  for (const auto how : reconcile::kStormReleases)
    releases.emplace(how, &released.Add({{"how", std::string(how)}}));
  for (const std::string& name : description.giving_back)
    queued.emplace(name, &queued_rows.Add({{"reconciler", name}}));
}

void StormInstruments::set(const reconcile::StormView& view) {
  for (const auto& [state, gauge] : states) gauge->Set(view.breaks && state == view.state ? 1 : 0);
  switched_off->Set(view.breaks ? 0 : 1);
  rate.Set(view.rate);
  for (const auto& [name, gauge] : queued) {
    const auto rows = view.queued.find(name);
    gauge->Set(rows == view.queued.end() ? 0 : static_cast<double>(rows->second));
  }
  held.Set(static_cast<double>(view.held));
  leases.Set(static_cast<double>(view.leases));
  leases_lapsed_share.Set(view.leases_lapsed_share);
  holders_lapsed_share.Set(view.holders_lapsed_share);
  const auto raise = [](Counter& counter, std::int64_t to) {
    if (const double more = static_cast<double>(to) - counter.Value(); more > 0) counter.Increment(more);
  };
  raise(trips, view.trips);
  for (const auto& [how, count] : view.releases)
    if (const auto counter = releases.find(how); counter != releases.end()) raise(*counter->second, count);
}

Instruments::Instruments(const Description& description)
    : families(registry),
      connects(counters(registry, "db_connects_total", "Attempts of the pool to connect, by result."), {},
               "result", kResults),
      database_errors(
          counters(registry, "db_errors_total",
                   "Errors outside of ticks, by class: in connecting, and in the daemon's own queries."),
          {}, "class", pg::error_classes()),
      storm(registry, description),
      connections(gauges(registry, "db_connections", "Connections of the pool, by state.")),
      connections_idle(connections.Add({{"state", "idle"}})),
      connections_in_use(connections.Add({{"state", "in_use"}})),
      connections_max(
          gauges(registry, "db_connections_max", "The most connections that the pool may have.").Add({})),
      pool_wait(histograms(registry, "db_pool_wait_seconds", "How long one waited for a place in the pool.")
                    .Add({}, kPoolWait)),
      pool_timeouts(
          counters(registry, "db_pool_timeouts_total", "Waits for a place in the pool that were given up.")
              .Add({})),
      writable(
          gauges(registry, "db_writable", "1 if the last check found a server that takes writes.").Add({})),
      lease_held_back(
          gauges(
              registry, "lease_history_held_back_seconds",
              "How long the oldest lease event has waited for a transaction that may commit an earlier one.")
              .Add({})),
      lease_delivered(counters(registry, "lease_history_delivered_total",
                               "Lease events handed to the subscriptions of this process.")
                          .Add({})),
      lease_reconnects(counters(registry, "lease_history_reconnects_total",
                                "Times that the lease history found the database again after losing it.")
                           .Add({})),
      http_displaced(counters(registry, "http_connections_displaced_total",
                              "HTTP connections that were closed to make place for another.")
                         .Add({})),
      ready(gauges(registry, "ready", "1 while the reconcilers run, as /readyz says.").Add({})),
      pauses_unread(
          gauges(registry, "pauses_unread", "1 while what is paused cannot be read, as /status says.")
              .Add({})),
      states(state_gauges(registry)),
      schema_version(
          gauges(registry, "schema_version", "Level of the database's schema; 0 while it is not known.")
              .Add({})),
      partitions(
          gauges(registry, "partitions",
                 "Partitions of the database, by whether this daemon's configuration covers them or leaves "
                 "them out.")),
      partitions_covered(partitions.Add({{"state", "covered"}})),
      partitions_left_out(partitions.Add({{"state", "left_out"}})),
      reload_successful(
          gauges(registry, "config_last_reload_successful",
                 "1 if the configuration was last read without a problem, at the start or later.")
              .Add({})),
      reload_success_time(gauges(registry, "config_last_reload_success_timestamp_seconds",
                                 "When the configuration was last read without a problem, in Unix time.")
                              .Add({})),
      config_hash(gauges(registry, "config_hash",
                         "Hash of the configuration as last read without a problem, but for `partitions` and "
                         "secrets: replicas with the same settings show the same.")
                      .Add({})) {
  for (const auto& [name, outcomes] : description.reconcilers) {
    const std::vector<std::string_view> known(outcomes.begin(), outcomes.end());
    reconcilers.try_emplace(name, families, name, known);
  }
  if (description.per_partition)
    oldest_due_in = &gauges(
        registry, "partition_oldest_due_timestamp_seconds",
        "Since when the oldest row that the last scan found due in a partition could be taken, in Unix time; "
        "0 when none was.");
  connections_max.Set(description.pool_size);
  const auto& build = description.build;
  gauges(registry, "build_info", "Always 1; the labels say what runs.")
      .Add({{"version", build.version},
            {"revision", build.revision},
            {"compiler", build.compiler},
            {"libpq_version", build.libpq_version}})
      .Set(1);
  gauges(registry, "partitions_info", "Always 1; the label says which partitions are configured.")
      .Add({{"partitions", description.partitions}})
      .Set(1);
}

ReconcilerInstruments& Instruments::of(std::string_view reconciler) {
  if (const auto found = reconcilers.find(reconciler); found != reconcilers.end()) return found->second;
  const std::string name(reconciler);
  return reconcilers.try_emplace(name, families, name, std::span<const std::string_view>{}).first->second;
}

void Instruments::set_partitions(const Partitions& covered) {
  if (oldest_due_in == nullptr) return;
  for (const auto& [name, its] : reconcilers) {
    auto& gauges = oldest_due_gauges[name];
    std::erase_if(gauges, [&](const auto& entry) {
      const bool gone = !std::ranges::binary_search(covered, entry.first);
      if (gone) oldest_due_in->Remove(entry.second);
      return gone;
    });
    for (const PartitionKey partition : covered)
      if (!gauges.contains(partition))
        gauges.emplace(partition, &oldest_due_in->Add({{"reconciler", name},
                                                       {"partition", std::to_string(partition.value)}}));
  }
}

void Instruments::set_oldest_due(std::string_view reconciler,
                                 const std::map<PartitionKey, UnixMillis>& by_partition) {
  const auto found = oldest_due_gauges.find(reconciler);
  if (found == oldest_due_gauges.end()) return;
  for (const auto& [partition, gauge] : found->second) {
    const auto due = by_partition.find(partition);
    gauge->Set(due == by_partition.end() ? 0 : unix_seconds(due->second));
  }
}

}  // namespace ff::metrics
