#include "reconcile/job.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/log_fields.hpp"

namespace ff::reconcile {
namespace {

// However far ahead a row is due: the sum has to fit.
UnixMillis held_off(UnixMillis due_at, Milliseconds holdoff) {
  const Milliseconds by = std::max(holdoff, Milliseconds{0});
  return due_at > UnixMillis::max() - by ? UnixMillis::max() : due_at + by;
}

}  // namespace

void Job::begin_tick(const TickOptions& its) {
  options = its;
  deadline = its.deadline;
  quarantine.forget_old(clock.now());
  suspects.start_over();
  held_rows.begin_tick();
}

void Job::end_tick(TickReport& report) {
  if (report.complete) one_group_each = false;
  if (const auto error = suspects.error_of_all()) {
    if (!report.failure) report.failure = error;
  } else {
    for (const Fault& row : suspects.rows()) put_in_quarantine(row, report);
  }
  if (report.more) report.wait = std::max(report.wait, rest());
  report.quarantined = quarantine.size();
  if (report.quarantined == 0) return;
  report.quarantine_rows = quarantine.told(clock.now());
  for (QuarantinedRow& row : report.quarantine_rows) row.pair = &reconciler;
}

void Job::find_partitions(pg::Connection& connection) {
  if (reconciler.partition_count.empty()) return;
  const Partitions all =
      all_partitions(connection.execute(reconciler.partition_count).one().get<std::int32_t>(0));
  if (!groups.are_of(all)) groups = Groups(all);
}

pg::Params Job::params(const Partitions& partitions, const Slice& slice) const {
  const auto& tag = scope.filter.instance_tag;
  pg::Params params =
      pg::Params::of(partitions, scope.filter.name_space, tag ? std::optional(tag->key) : std::nullopt,
                     tag ? std::optional(tag->value) : std::nullopt);
  if (reconciler.walk) slice.add_to(params);
  params.append(told ? told->params : reconciler.parameters(scope.settings, scope.family));
  params.add(static_cast<std::int64_t>(holdoff().count()));
  return params;
}

pg::Call Job::of_execution(const ExecutionId& execution) const {
  pg::Params its = params({execution.partition});
  its.add(execution.uuid);
  return {statements.of_execution.over({execution.partition}), std::move(its)};
}

bool Job::ask(pg::Transaction& transaction) {
  if (!prelude) return true;
  told = prelude->ask({.transaction = transaction, .wary = options.wary, .scan = options.scan});
  return !told->worth_a_scan.empty();
}

bool Job::is_time_to_ask_again() const {
  if (!told || !told->ask_again) return false;
  const auto now = shared->server_clock.at(clock.now());
  return now && *now >= *told->ask_again + holdoff();
}

bool Job::is_worth_a_scan(const Partitions& partitions) const {
  return !told || std::ranges::any_of(partitions, [&](PartitionKey partition) {
    return told->worth_a_scan.contains(partition);
  });
}

Milliseconds Job::still_for() const {
  const Milliseconds its = reconciler.still_for;
  return its > Milliseconds{0} ? scope.still_for.value_or(its) : its;
}

UnixMillis Job::takeable_at(UnixMillis due_at) const {
  return held_off(due_at, holdoff());
}

// The last millisecond of a holdoff is that in which it falls due.
UnixMillis Job::late_since(UnixMillis due_at) const {
  return held_off(due_at, holdoff() - Milliseconds{1});
}

UnixMillis Job::late_since(UnixMillis due_at, const RowKey& key) const {
  const UnixMillis at = late_since(due_at);
  return reconciler.still_for > Milliseconds{0} ? std::max(at, still_rows.since(key) + still_for()) : at;
}

void Job::put_in_quarantine(const Fault& row, TickReport& report) {
  const pg::Error& error = row.error;
  ++report.errors[std::string(error.error_class())];
  if (options.dry_run) {
    report.faults.push_back(row);
    return;
  }
  // Where it is full, one that it had to forget would be told as new, again and again.
  const bool is_known = quarantine.contains(row.key) || quarantine.is_full();
  const Milliseconds pause = quarantine.add(row.key, clock.now(), error, row.execution, row.took);
  if (is_known) return;
  const auto& execution = row.execution;
  const LogFields fields(
      reconciler.name, {{"partition", row.key.partition.value}},
      {{"execution", execution ? to_string(*execution) : ""}, {"sqlstate", error.sqlstate()}});
  // Where no scan of this process comes back to it, as in a tick by hand, a quarantine ends with the tick.
  const std::string for_how_long = options.in_slices
                                       ? fmt::format(" and is quarantined for {} s{}", pause.count() / 1000,
                                                     error.lacks_resources() ? "" : ", then longer")
                                       : "";
  spdlog::error("{}: this row cannot be moved{}: {}{}: {}", reconciler.name, for_how_long,
                describe(reconciler, row.key), execution ? ' ' + to_string(*execution) : "", error.what());
}

}  // namespace ff::reconcile
