#include "reconcile/look_for_holders.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/duration.hpp"
#include "pg/transaction.hpp"
#include "reconcile/candidate.hpp"

namespace ff::reconcile {
namespace {

// For each row: pg_locks of a busy server is long.
constexpr Milliseconds kPatienceWithLocks{500};

std::string name_of(const HeldRow& row) {
  return row.execution ? to_string(*row.execution) : std::string();
}

std::string text_of(const std::vector<Holder>& holders) {
  std::string text;
  for (const Holder& holder : holders) {
    text += text.empty() ? "" : ", ";
    text += holder.pid == 0 ? "the prepared transaction " + holder.application
                            : fmt::format("pid {} ({}{}{})", holder.pid, holder.application,
                                          holder.state.empty() ? "" : ", ", holder.state);
    text += " in " + holder.table;
  }
  return text.empty() ? "somebody" : text;
}

// Nobody where it is not to be seen: a privilege that is missing, a server that takes too long.
std::vector<Holder> seen_holders(const Job& job, const HeldRow& row, pg::Connection& connection) {
  if (!row.execution) return {};
  try {
    pg::Transaction transaction(connection, {.at_most = kPatienceWithLocks});
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

void look_for_holders(Job& job, pg::Connection& connection) {
  if (job.options.dry_run) return;
  for (const HeldRow& row : job.held_rows.to_look_into(job.clock.now())) {
    std::vector<Holder> holders = seen_holders(job, row, connection);
    const std::string who = text_of(holders);
    if (job.held_rows.note(row.key, std::move(holders)))
      spdlog::warn("{}: this row is due and has been held for {} by {}: {} {}", job.reconciler.name,
                   spoken_duration(row.held_for), who, describe(job.reconciler, row.key), name_of(row));
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
