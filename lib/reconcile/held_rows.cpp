#include "reconcile/held_rows.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/duration.hpp"
#include "base/log_fields.hpp"
#include "pg/transaction.hpp"
#include "reconcile/candidate.hpp"
#include "reconcile/job.hpp"

namespace ff::reconcile {
namespace {

// A row that no tick has met for so long is another one's, or gone.
constexpr Milliseconds kForgottenAfter = std::chrono::minutes{10};
constexpr Milliseconds kAnewAfter = std::chrono::minutes{1};

// With all of them, because the tick waits meanwhile: pg_locks of a busy server is long.
constexpr Milliseconds kPatienceWithLocks{500};

std::string name_of(const HeldRow& row) {
  return row.execution ? to_string(*row.execution) : std::string();
}

std::string who(const std::vector<Holder>& holders) {
  std::string text;
  for (const Holder& holder : holders)
    text += (text.empty() ? "" : ", ") + text_of(holder) + " in " + holder.table;
  return text.empty() ? "somebody, or promised to a worker" : text;
}

// Nobody where it is not to be seen: a privilege that is missing, a server that takes too long.
std::vector<Holder> seen_holders(const Job& job, const HeldRow& row, pg::Connection& connection,
                                 Milliseconds at_most) {
  if (!row.execution) return {};
  try {
    pg::Transaction transaction(connection, {.at_most = at_most});
    std::vector<Holder> holders = holders_of(transaction, *row.execution, job.reconciler.privileges);
    transaction.rollback();
    return holders;
  } catch (const pg::Error& error) {
    if (error.connection_lost()) throw;
    spdlog::debug("{}: who holds a row is not to be seen: {}", job.reconciler.name, error.what());
    return {};
  }
}

}  // namespace

void HeldRows::begin_tick() {
  const std::lock_guard lock(mutex_);
  ++tick_;
}

void HeldRows::found(const RowKey& key, const std::optional<ExecutionId>& execution, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  auto row = rows_.find(key);
  if (row == rows_.end()) {
    if (rows_.size() >= kMostRemembered) return;
    row = rows_.emplace(key, Entry{.execution = execution, .first = now, .last = now}).first;
  }
  Entry& entry = row->second;
  // One that was met again only now has not been held all the while, as far as anybody knows.
  if (now >= entry.last + kAnewAfter) entry = {.execution = execution, .first = now, .last = now};
  if (entry.tick != tick_) ++entry.ticks;
  entry.tick = tick_;
  entry.last = now;
}

std::vector<HeldRow> HeldRows::to_inspect(SteadyTime now) {
  {
    const std::lock_guard lock(mutex_);
    if (inspected_at_ && now < *inspected_at_ + kInspectEvery) return {};
  }
  auto rows = told(now);
  const std::lock_guard lock(mutex_);
  if (!rows.empty()) inspected_at_ = now;
  return rows;
}

bool HeldRows::note(const RowKey& key, std::vector<Holder> holders) {
  const std::lock_guard lock(mutex_);
  const auto row = rows_.find(key);
  if (row == rows_.end()) return false;
  row->second.holders = std::move(holders);
  return !std::exchange(row->second.noted, true);
}

std::vector<HeldRow> HeldRows::end_tick(bool all_seen, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  std::vector<HeldRow> gone;
  for (auto row = rows_.begin(); row != rows_.end();) {
    const Entry& entry = row->second;
    if ((!all_seen || entry.tick == tick_) && now < entry.last + kForgottenAfter) {
      ++row;
      continue;
    }
    if (entry.noted) gone.push_back(row_of(row->first, entry, now));
    row = rows_.erase(row);
  }
  return gone;
}

std::vector<HeldRow> HeldRows::told(SteadyTime now) const {
  const std::lock_guard lock(mutex_);
  std::vector<HeldRow> told;
  for (const auto& [key, entry] : rows_)
    if (entry.ticks >= kNoticedFrom) told.push_back(row_of(key, entry, now));
  std::ranges::stable_sort(told, std::greater{}, &HeldRow::held_for);
  if (told.size() > kMostTold) told.resize(kMostTold);
  return told;
}

HeldRow HeldRows::row_of(const RowKey& key, const Entry& entry, SteadyTime now) {
  return {
      key,         nullptr,      entry.execution, std::chrono::duration_cast<Milliseconds>(now - entry.first),
      entry.ticks, entry.holders};
}

void find_holders(Job& job, pg::Connection& connection) {
  if (job.options.dry_run) return;
  const SteadyTime end = job.clock.now() + kPatienceWithLocks;
  for (const HeldRow& row : job.held_rows.to_inspect(job.clock.now())) {
    const auto left = std::chrono::duration_cast<Milliseconds>(end - job.clock.now());
    if (left <= Milliseconds{0} || job.options.stop.stop_requested()) return;
    std::vector<Holder> holders = seen_holders(job, row, connection, left);
    const std::string its_holders = who(holders);
    const LogFields fields(job.reconciler.name, {{"partition", row.key.partition.value}},
                           {{"execution", name_of(row)}, {"held_by", its_holders}});
    if (job.held_rows.note(row.key, std::move(holders)))
      spdlog::warn("{}: this row is due and has been held for {} by {}: {} {}", job.reconciler.name,
                   spoken_duration(row.held_for), its_holders, describe(job.reconciler, row.key),
                   name_of(row));
  }
}

void end_held_rows(Job& job, TickReport& report) {
  if (job.options.dry_run) return;
  const bool in_part = job.options.in_slices && job.reconciler.walk;
  const bool all_seen = report.complete && !report.more && !report.failure && !in_part;
  for (const HeldRow& row : job.held_rows.end_tick(all_seen, job.clock.now()))
    spdlog::info("{}: a row is no longer held, after {}: {} {}", job.reconciler.name,
                 spoken_duration(row.held_for), describe(job.reconciler, row.key), name_of(row));
  report.held = job.held_rows.told(job.clock.now());
  for (HeldRow& row : report.held) row.pair = &job.reconciler;
}

}  // namespace ff::reconcile
