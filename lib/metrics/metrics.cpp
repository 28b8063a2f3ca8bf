#include "metrics/metrics.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>

#include "metrics/instruments.hpp"

namespace ff::metrics {
namespace {

double unix_seconds_or_zero(const std::optional<UnixMillis>& at) {
  return at ? unix_seconds(*at) : 0;
}

}  // namespace

Metrics::Metrics(const Description& description, const Clock& clock)
    : clock_(clock), instruments_(std::make_unique<Instruments>(description)) {
  Metrics::state_changed(supervisor::State::starting, {});
  config_reloaded(description.config_hash);
}

Metrics::~Metrics() = default;

void Metrics::tick_started(const supervisor::TickStart& start) noexcept {
  const std::lock_guard lock(instruments_->mutex);
  auto& its = instruments_->of(start.reconciler);
  its.running_since.Set(unix_seconds(clock_.wall()));
  its.under_way = &start.progress;
}

void Metrics::tick_finished(const supervisor::TickEvent& event) noexcept {
  const auto& report = event.report;
  const std::lock_guard lock(instruments_->mutex);
  auto& to = instruments_->of(event.reconciler);
  for (const auto& [outcome, rows] : report.outcomes) to.processed.add(outcome, rows);
  for (const auto& [cls, count] : report.errors) to.errors.add(cls, count);
  for (const auto& [skip, rows] : report.skipped) to.skipped.add(reconcile::name(skip), rows);
  to.observe_lateness(report.lateness);
  to.running_since.Set(0);
  to.under_way = nullptr;

  to.ticks.add(report.failure ? "failure" : "success", 1);
  to.ticks_missed.Increment(static_cast<double>(event.missed));
  to.tick_duration.Observe(event.duration.count());
  to.tick_start_delay.Observe(event.start_delay.count());
  if (!report.failure) to.last_success.Set(unix_seconds(clock_.wall()));
  if (!to.enabled || to.is_paused) return;
  to.consecutive_failures.Set(event.consecutive_failures);
  // Of the rows a tick that failed at once knows nothing, and one that took what had been seen coming only what
  // comes next: what the last scan saw stands.
  if (report.complete) {
    to.left = report.left();
    // Of none that is left, it would be that of a row that was moved.
    to.oldest_due.Set(to.left > 0 ? unix_seconds_or_zero(report.oldest_due) : 0);
    instruments_->set_oldest_due(event.reconciler, report.oldest_due_in);
  }
  const bool own_more = report.more && !report.companions_more.value_or(false);
  if (report.complete || own_more) to.more = own_more;
  to.companions_more = report.companions_more.value_or(to.companions_more);
  to.is_held = reconcile::is_held(report.hold);
  to.show_due();
  if (report.complete || !report.failure) {
    to.next_due.Set(unix_seconds_or_zero(report.next_due));
    to.quarantined.Set(static_cast<double>(report.quarantined));
    to.held.Set(to.is_held ? 1 : 0);
  }
}

void Metrics::state_changed(supervisor::State state, const std::string& /*reason*/) noexcept {
  using supervisor::State;
  for (const auto& [each, gauge] : instruments_->states) gauge->Set(each == state ? 1 : 0);
  instruments_->ready.Set(is_ready(state) ? 1 : 0);
  // Stopping says nothing about the server.
  if (state != State::stopping)
    instruments_->writable.Set(is_ready(state) || state == State::schema_outdated ? 1 : 0);
}

void Metrics::schema_version(int version) noexcept {
  instruments_->schema_version.Set(version);
}

void Metrics::partitions(const Coverage& coverage) noexcept {
  instruments_->partitions_covered.Set(static_cast<double>(coverage.covered.size()));
  instruments_->partitions_left_out.Set(static_cast<double>(coverage.left_out.size()));
  const std::lock_guard lock(instruments_->mutex);
  instruments_->set_partitions(coverage.covered);
}

void Metrics::waited(std::chrono::duration<double> for_connection) noexcept {
  instruments_->pool_wait.Observe(for_connection.count());
}

void Metrics::acquire_timed_out() noexcept {
  instruments_->pool_timeouts.Increment();
}

void Metrics::connected(const pg::Error* failure) noexcept {
  const std::lock_guard lock(instruments_->mutex);
  instruments_->connects.add(failure == nullptr ? "success" : "failure", 1);
  if (failure != nullptr) instruments_->database_errors.add(failure->error_class(), 1);
}

void Metrics::lease_event_delivered() noexcept {
  instruments_->lease_delivered.Increment();
}

void Metrics::lease_history_reconnected() noexcept {
  instruments_->lease_reconnects.Increment();
}

void Metrics::lease_history_held_back(Milliseconds since) noexcept {
  instruments_->lease_held_back.Set(seconds(since));
}

void Metrics::database_error(const pg::Error& error) noexcept {
  const std::lock_guard lock(instruments_->mutex);
  instruments_->database_errors.add(error.error_class(), 1);
}

void Metrics::reconciler_enabled(std::string_view reconciler, bool enabled) noexcept {
  const std::lock_guard lock(instruments_->mutex);
  auto& its = instruments_->of(reconciler);
  its.enabled = enabled;
  if (enabled) return;
  its.clear_gauges();
  instruments_->set_oldest_due(reconciler, {});
}

void Metrics::pauses_changed(const std::vector<pause::Pause>& in_force) noexcept {
  const std::lock_guard lock(instruments_->mutex);
  for (auto& [name, its] : instruments_->reconcilers) {
    its.is_paused = !pause::covering(in_force, name).empty();
    its.paused.Set(its.is_paused ? 1 : 0);
    if (!its.is_paused) continue;
    its.clear_gauges();
    instruments_->set_oldest_due(name, {});
  }
}

void Metrics::pauses_unread(const std::string& why) noexcept {
  instruments_->pauses_unread.Set(why.empty() ? 0 : 1);
}

void Metrics::config_reloaded(std::optional<std::uint64_t> hash) noexcept {
  instruments_->reload_successful.Set(hash ? 1 : 0);
  if (!hash) return;
  instruments_->reload_success_time.Set(unix_seconds(clock_.wall()));
  instruments_->config_hash.Set(static_cast<double>(*hash));
}

void Metrics::http_connection_displaced() noexcept {
  instruments_->http_displaced.Increment();
}

void Metrics::watch_pool(std::function<pg::PoolState()> state) {
  const std::lock_guard lock(instruments_->pool_mutex);
  instruments_->pool_state = std::move(state);
}

void Metrics::watch_storm(std::function<reconcile::StormView()> view) {
  const std::lock_guard lock(instruments_->pool_mutex);
  instruments_->storm_view = std::move(view);
}

std::string Metrics::scrape() const {
  {
    const std::lock_guard lock(instruments_->pool_mutex);
    const auto pool = instruments_->pool_state ? instruments_->pool_state() : pg::PoolState{};
    instruments_->connections_idle.Set(pool.idle);
    instruments_->connections_in_use.Set(pool.in_use);
    if (instruments_->storm_view) instruments_->storm.set(instruments_->storm_view());
  }
  {
    const std::lock_guard lock(instruments_->mutex);
    for (auto& [name, its] : instruments_->reconcilers) its.show_due();
  }
  auto families = instruments_->registry.Collect();
  auto of_process = instruments_->process.Collect();
  families.insert(families.end(), std::make_move_iterator(of_process.begin()),
                  std::make_move_iterator(of_process.end()));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace ff::metrics
