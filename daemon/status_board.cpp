#include "status_board.hpp"

#include <algorithm>
#include <utility>

#include "report_json.hpp"
#include "storm_report.hpp"

namespace ff::daemon {

using nlohmann::ordered_json;

namespace {

ordered_json held_json(const reconcile::TickReport& report, UnixMillis told_at) {
  auto rows = ordered_json::array();
  for (const reconcile::HeldRow& row : report.held) {
    auto holders = ordered_json::array();
    for (const reconcile::Holder& holder : row.holders)
      holders.push_back({{"pid", holder.pid == 0 ? ordered_json() : ordered_json(holder.pid)},
                         {"application", holder.application},
                         {"state", holder.state.empty() ? ordered_json() : ordered_json(holder.state)},
                         {"table", holder.table},
                         {"since_ms", time_json(holder.since)}});
    rows.push_back({{"partition", row.key.partition.value},
                    {"key", key_json(*row.pair, row.key)},
                    {"execution", execution_json(row.execution)},
                    {"held_since_ms", count(told_at - row.held_for)},
                    {"ticks", row.ticks},
                    {"holders", holders}});
  }
  return rows;
}

// Null where it never was.
ordered_json moment_json(UnixMillis at) {
  return count(at) > 0 ? ordered_json(count(at)) : ordered_json();
}

// What is needed to find the row and to try it by hand; not what is in it.
ordered_json quarantine_json(const reconcile::TickReport& report, UnixMillis told_at) {
  auto rows = ordered_json::array();
  for (const reconcile::QuarantinedRow& row : report.quarantine_rows) {
    rows.push_back({{"partition", row.key.partition.value},
                    {"key", key_json(*row.pair, row.key)},
                    {"execution", execution_json(row.execution)},
                    {"sqlstate", row.sqlstate},
                    {"message", row.message},
                    {"tries", row.tries},
                    {"next_try_ms", count(told_at + row.next_try_in)}});
  }
  return rows;
}

// What was due before it was switched off or paused says nothing of the present. Of a backlog that is worked off, only
// what has been read is known: at least so many are left.
void add_present(ordered_json& line, const StatusBoard::Entry& entry, bool paused,
                 const std::optional<StatusBoard::Running>& running) {
  const bool at_work = entry.enabled && !paused;
  const bool known = at_work && count(entry.last_scan) > 0;
  const std::int64_t in_tick = running ? running->rows.left() : 0;
  // What is held was counted as far as it takes to hold it.
  const auto [left, more] = reconcile::due_now(
      entry.totals.due, entry.totals.more || entry.companions_more || reconcile::is_held(entry.last.hold),
      in_tick);
  line["due"] = known || (at_work && in_tick > 0) ? ordered_json(left) : ordered_json();
  line["due_capped"] = at_work && more;
  // Of none that is left, it would be that of a row that was moved.
  line["oldest_due_ms"] = known && left > 0 ? time_json(entry.last.oldest_due) : ordered_json();
  line["next_due_ms"] = at_work ? time_json(entry.last.next_due) : ordered_json();
  line["next_due_known_until_ms"] = known ? time_json(next_due_known_until(entry)) : ordered_json();
  line["running"] = running ? ordered_json{{"since_ms", count(running->since)},
                                           {"scanned", running->rows.scanned},
                                           {"processed", running->rows.processed}}
                            : ordered_json();
}

}  // namespace

void StatusBoard::tick_started(const supervisor::TickStart& start) {
  const std::lock_guard lock(mutex_);
  ticks_.insert_or_assign(std::string(start.reconciler), Tick{clock_.wall(), &start.progress});
}

std::optional<UnixMillis> next_due_known_until(const StatusBoard::Entry& entry) {
  const auto until = entry.last.all_known_until;
  const bool all_seen = !entry.last.paged && !entry.totals.more && until && count(*until) > 0;
  return all_seen ? until : std::nullopt;
}

std::optional<StatusBoard::Running> StatusBoard::running(const std::string& reconciler) const {
  const auto found = ticks_.find(reconciler);
  if (found == ticks_.end()) return std::nullopt;
  const auto& [since, progress] = found->second;
  return Running{since, progress->read()};
}

void StatusBoard::tick_finished(const supervisor::TickEvent& event) {
  const std::lock_guard lock(mutex_);
  if (const auto found = ticks_.find(event.reconciler); found != ticks_.end()) ticks_.erase(found);
  Entry& entry = reconcilers_[std::string(event.reconciler)];
  entry.last_tick = clock_.wall();
  entry.consecutive_failures = event.consecutive_failures;
  if (event.report.complete) entry.last_scan = entry.last_tick;
  // What was taken because it had been seen coming says nothing of the other rows.
  if (event.report.complete) entry.totals.due = event.report.left();
  const bool own_more = event.report.more && !event.report.companions_more.value_or(false);
  if (event.report.complete || own_more) entry.totals.more = own_more;
  if (event.report.companions_more) entry.companions_more = *event.report.companions_more;
  // That much is certain; how many they are nobody has counted.
  if (entry.totals.more) entry.totals.due = std::max<std::int64_t>(entry.totals.due, 1);
  if (event.report.complete) {
    entry.last = event.report;
  } else if (event.report.failure) {
    // It has not seen what is due: the last scan has.
    reconcile::TickReport before = std::exchange(entry.last, event.report);
    entry.last.complete = before.complete;
    entry.last.more = before.more;
    entry.last.oldest_due = before.oldest_due;
    entry.last.oldest_due_in = std::move(before.oldest_due_in);
    entry.last.database_time = before.database_time;
    entry.last.hold = before.hold;
  } else {
    entry.last.next_due = event.report.next_due;
    entry.last.all_known_until = event.report.all_known_until;
    entry.last.quarantined = event.report.quarantined;
    entry.last.quarantine_rows = event.report.quarantine_rows;
    entry.last.held = event.report.held;
    entry.last.hold = event.report.hold;
  }
  if (event.report.failure)
    entry.last_failure = event.report.failure->what();
  else
    entry.last_success = entry.last_tick;
  Totals& totals = entry.totals;
  totals.processed += event.report.processed;
  totals.errors += event.report.error_count();
  for (const auto& [outcome, count] : event.report.outcomes) totals.outcomes[outcome] += count;
  if (!event.report.lateness.empty()) totals.worst_lateness = event.report.lateness.worst();
}

void StatusBoard::state_changed(supervisor::State state, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  state_ = state;
  reason_ = reason;
}

void StatusBoard::schema_version(int version) {
  const std::lock_guard lock(mutex_);
  schema_version_ = version;
}

void StatusBoard::partitions(const Coverage& coverage) {
  const std::lock_guard lock(mutex_);
  coverage_ = coverage;
}

supervisor::State StatusBoard::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void StatusBoard::pauses_changed(const std::vector<pause::Pause>& in_force) {
  const std::lock_guard lock(mutex_);
  pauses_ = in_force;
}

void StatusBoard::pauses_unread(const std::string& why) {
  const std::lock_guard lock(mutex_);
  pauses_unread_ = why;
}

void StatusBoard::reconciler_enabled(const std::string& reconciler, bool enabled) {
  const std::lock_guard lock(mutex_);
  reconcilers_[reconciler].enabled = enabled;
}

// One that is off or paused is not to get on.
bool StatusBoard::is_faulty(const std::string& reconciler) const {
  const Entry& entry = reconcilers_.at(reconciler);
  return entry.enabled && entry.consecutive_failures >= kFaultyFrom &&
         pause::covering(pauses_, reconciler).empty();
}

bool StatusBoard::has_fault() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(reconcilers_, [&](const auto& each) { return is_faulty(each.first); });
}

std::string StatusBoard::readiness_json() const {
  const std::lock_guard lock(mutex_);
  auto reasons = ordered_json::array();
  if (!reason_.empty())
    reasons.push_back(reason_);
  else if (!supervisor::is_ready(state_))
    reasons.push_back(std::string(name(state_)));
  for (const auto& [its_name, entry] : reconcilers_)
    if (is_faulty(its_name))
      reasons.push_back(its_name + ": failed " + std::to_string(entry.consecutive_failures) +
                        " times in a row: " + entry.last_failure);
  return dump(
      {{"ready", supervisor::is_ready(state_)}, {"state", std::string(name(state_))}, {"reasons", reasons}});
}

std::string StatusBoard::status_json(const pg::PoolState& pool, std::optional<UnixMillis> recovering_until,
                                     const reconcile::StormView& storm) const {
  static const reconcile::TickReport kNothing;
  const std::lock_guard lock(mutex_);
  auto reconcilers = ordered_json::array();
  for (const auto& [its_name, entry] : reconcilers_) {
    ordered_json line{{"reconciler", its_name}, {"enabled", entry.enabled}};
    add_present(line, entry, !pause::covering(pauses_, its_name).empty(), running(its_name));
    line["last_tick_ms"] = moment_json(entry.last_tick);
    line["last_success_ms"] = moment_json(entry.last_success);
    line["paused"] = !pause::covering(pauses_, its_name).empty();
    line["hold"] = entry.enabled ? hold_json(its_name, entry.last.hold) : ordered_json();
    line["consecutive_failures"] = entry.consecutive_failures;
    line["last_failure"] = entry.last_failure;
    // What one had when it was switched off nobody tries again.
    const reconcile::TickReport& present = entry.enabled ? entry.last : kNothing;
    line["quarantined"] = present.quarantined;
    line["quarantine"] = quarantine_json(present, entry.last_tick);
    line["held"] = held_json(present, entry.last_tick);
    line["processed_total"] = entry.totals.processed;
    line["errors_total"] = entry.totals.errors;
    line["last"] = counts_json(entry.last);
    reconcilers.push_back(std::move(line));
  }
  return dump(
      {{"state", std::string(name(state_))},
       {"reason", reason_},
       {"recovering_until_ms", time_json(recovering_until)},
       {"started_at_ms", count(started_at_)},
       {"schema_version", schema_version_ > 0 ? ordered_json(schema_version_) : ordered_json()},
       {"partitions", coverage_ ? coverage_json(*coverage_) : ordered_json()},
       {"pool",
        {{"size", pool.size}, {"in_use", pool.in_use}, {"idle", pool.idle}, {"waiting", pool.waiting}}},
       {"storm", storm_json(storm)},
       {"pauses", pauses_json(pauses_)},
       {"pauses_unread", pauses_unread_.empty() ? ordered_json() : ordered_json(pauses_unread_)},
       {"reconcilers", reconcilers}});
}

StatusBoard::Snapshot StatusBoard::snapshot() const {
  const std::lock_guard lock(mutex_);
  Snapshot all{state_,    reason_,      started_at_, schema_version_,
               coverage_, reconcilers_, pauses_,     pauses_unread_};
  for (auto& [its_name, entry] : all.reconcilers) entry.running = running(its_name);
  return all;
}

std::string StatusBoard::line() const {
  const std::lock_guard lock(mutex_);
  std::int64_t processed = 0;
  std::int64_t errors = 0;
  for (const auto& [its_name, entry] : reconcilers_) {
    processed += entry.totals.processed;
    errors += entry.totals.errors;
  }
  std::string text = std::string(name(state_)) + ", " + std::to_string(processed) + " rows moved, " +
                     std::to_string(errors) + " errors";
  return reason_.empty() ? text : text + ": " + reason_;
}

std::map<std::string, StatusBoard::Totals, std::less<>> StatusBoard::totals() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Totals, std::less<>> totals;
  for (const auto& [its_name, entry] : reconcilers_) totals.emplace(its_name, entry.totals);
  return totals;
}

}  // namespace ff::daemon
