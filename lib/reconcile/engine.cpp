#include "reconcile/engine.hpp"

#include <algorithm>
#include <mutex>

#include "pg/transaction.hpp"

namespace ff::reconcile {
namespace {

// A partition that shows this many due rows in the probe is paged through; the others show all that is due
// there and, behind it, what falls due next.
constexpr int kProbeDepth = 2;

// How far ahead a backlog's next due row is looked for.
constexpr Milliseconds kBacklogLooksAhead = std::chrono::hours{24};

void note_next(std::optional<UnixMillis>& next, UnixMillis at) {
  if (!next || at < *next) next = at;
}

/// What a probe tells.
struct Probed {
  std::vector<Candidate> few;             ///< all due rows of the partitions that have few
  std::vector<Candidate> oldest_of_many;  ///< the oldest row of each partition that may have more
  std::optional<UnixMillis> next_due;     ///< when the next row may be taken
};

Probed sort_out(const Ground& ground, const std::vector<Candidate>& rows) {
  Probed probed;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i;
    while (end < rows.size() && rows[end].key.partition == rows[i].key.partition) ++end;
    const bool many = end - i == static_cast<std::size_t>(kProbeDepth) && rows[end - 1].due;
    if (many) probed.oldest_of_many.push_back(rows[i]);
    for (; i < end; ++i) {
      if (rows[i].due && !many) probed.few.push_back(rows[i]);
      if (!rows[i].due) note_next(probed.next_due, ground.takeable_at(rows[i].due_at));
    }
  }
  return probed;
}

/// The partitions, those first that have waited longest, in groups that one statement can name.
std::vector<Partitions> grouped(std::vector<Candidate> oldest) {
  std::sort(oldest.begin(), oldest.end(),
            [](const Candidate& a, const Candidate& b) { return a.due_at < b.due_at; });
  std::vector<Partitions> groups;
  for (std::size_t from = 0; from < oldest.size(); from += Statements::kNamed)
    groups.push_back(
        partitions_of(Candidates(oldest).subspan(from, std::min(Statements::kNamed, oldest.size() - from))));
  return groups;
}

}  // namespace

Engine::Engine(const Reconciler& reconciler, Scope scope, pg::Pool& pool, const Clock& clock, Lanes& lanes)
    : ground_(std::make_unique<Ground>(reconciler, std::move(scope), clock)), pool_(pool), lanes_(lanes) {}

TickReport Engine::tick(const TickOptions& options) {
  ground_->quarantine.forget_old(ground_->clock.now());
  TickReport report = on_a_lane(options, [&](Lane& lane) { take_all(lane, options); });
  report.quarantined = ground_->quarantine.size();
  return report;
}

TickReport Engine::tick_one(const ExecutionId& execution, const TickOptions& options) {
  TickReport report = on_a_lane(options, [&](Lane& lane) {
    for (const Candidate& row : lane.rows_of(execution)) {
      if (row.due && lane.report().scanned++ == 0) lane.report().oldest_due = row.due_at;  // oldest first
      lane.take({&row, 1});
    }
  });
  report.quarantined = ground_->quarantine.size();
  return report;
}

// What went wrong with the whole tick is part of its report, so that what was committed before is not
// forgotten.
TickReport Engine::on_a_lane(const TickOptions& options, const std::function<void(Lane&)>& work) {
  std::optional<Lane> lane;
  TickReport report;
  try {
    lane.emplace(*ground_, options, pool_.acquire());
    work(*lane);
    report = std::move(lane->report());
  } catch (const pg::Error& error) {
    if (lane) report = std::move(lane->report());
    ++report.errors[std::string(error.error_class())];
    report.failure = error;
  }
  return report;
}

void Engine::take_all(Lane& lane, const TickOptions& options) {
  Probed probed = sort_out(*ground_, lane.page(partitions(lane), kProbeDepth, options.look_ahead));
  lane.report().next_due = probed.next_due;
  lane.take_in_batches(std::move(probed.few));
  share(lane, options, grouped(std::move(probed.oldest_of_many)));
}

// Whoever is done with a group takes the next one.
void Engine::share(Lane& lane, const TickOptions& options, const std::vector<Partitions>& groups) {
  if (groups.empty()) return;
  std::mutex mutex;
  std::size_t taken = 0;
  std::vector<TickReport> others;
  const auto next = [&]() -> const Partitions* {
    const std::lock_guard lock(mutex);
    return taken < groups.size() ? &groups[taken++] : nullptr;
  };
  const auto work = [&](Lane& any) {
    while (const Partitions* group = next()) any.take_partitions(*group);
  };
  std::optional<pg::Error> failure;
  lanes_.run(
      groups.size() - 1,
      [&] {
        try {
          work(lane);
        } catch (const pg::Error& error) {
          failure = error;  // the others are waited for
        }
      },
      [&] {
        TickReport report = on_a_lane(options, work);
        const std::lock_guard lock(mutex);
        others.push_back(std::move(report));
      });
  for (TickReport& other : others) lane.report().add(std::move(other));
  if (failure) throw *failure;
}

Backlog Engine::backlog(std::int64_t cap) {
  const TickOptions options;
  Lane lane(*ground_, options, pool_.acquire());
  const Partitions all = partitions(lane);
  Backlog backlog;
  backlog.next_due = sort_out(*ground_, lane.page(all, kProbeDepth, kBacklogLooksAhead)).next_due;

  pg::Params params = ground_->params(all);
  params.add(cap);
  const pg::Plan plan = Statements::plan_for(all.size());
  pg::Transaction transaction(lane.connection(), plan);
  const pg::Result counted = transaction.execute(ground_->statements(plan).backlog, params);
  transaction.rollback();
  const pg::Row row = counted.one();
  backlog.due = row.get<std::int64_t>("due");
  backlog.capped = backlog.due >= cap;
  if (const auto oldest = row.get<std::optional<std::int64_t>>("oldest_due_ms"))
    backlog.oldest_due = unix_millis(*oldest);
  backlog.database_time = unix_millis(row.get<std::int64_t>("now_ms"));
  return backlog;
}

Partitions Engine::partitions(Lane& lane) const {
  const std::string_view count_query = ground_->reconciler.partition_count;
  if (count_query.empty()) return ground_->scope.partitions;
  const auto count = lane.connection().execute(count_query).one().get<std::int32_t>(0);
  return partition_range({0}, {static_cast<std::int16_t>(count - 1)});
}

}  // namespace ff::reconcile
