#include "reconcile/pager.hpp"

#include <algorithm>

#include "pg/transaction.hpp"

namespace ff::reconcile {
namespace {

// How many batches a page of a single partition has: so that there is something to share.
constexpr int kBatchesAPage = 4;

}  // namespace

Question page(const Job& job, const Partitions& partitions, const Slice& slice, int limit, Milliseconds ahead,
              UnixMillis from) {
  pg::Params params = job.params(partitions, slice);
  params.add(static_cast<std::int64_t>(limit));
  params.add(static_cast<std::int64_t>(ahead.count()));
  params.add(count(from));
  const Partitions group =
      partitions.empty() ? job.groups.all().front() : job.groups.around(partitions.front());
  const Statement& statement = job.whose() ? job.statements.page_whose : job.statements.page;
  return {statement.over(group), std::move(params)};
}

Pager::Pager(const Job& job, Partitions partitions, Slice slice, UnixMillis from)
    : job_(job), partitions_(std::move(partitions)), slice_(slice), from_(from) {}

std::vector<Candidate> Pager::next(Worker& worker, bool all_moved) {
  if (!begun_) return first(worker);
  for (End& end : ends_)
    end.by_key = end.by_key || (!all_moved && (first_page_ || (of_last_ && &end == &ends_.back())));
  first_page_ = false;
  // Until something is shown: a partition's next page may hold only rows that were shown before.
  while (!ends_.empty()) {
    auto rows = more_of(ends_.back(), worker, of_last_);
    if (!of_last_) ends_.pop_back();
    if (!rows.empty()) return rows;
  }
  return {};
}

// Several partitions share the first page; those that have more are then paged through one by one.
std::vector<Candidate> Pager::first(Worker& worker) {
  begun_ = true;
  // Of several, half a batch of each: so that the rows of all of them fit into little memory.
  const int batch = job_.scope.batch_size;
  const int most = partitions_.size() == 1 ? batch : std::max(1, batch / 2);
  auto rows = worker.read({page(job_, partitions_, slice_, most, Milliseconds{0}, from_)});
  ends_ = ends_of_full_pages(rows, static_cast<std::size_t>(most));
  return rows;
}

std::vector<Pager::End> Pager::ends_of_full_pages(const std::vector<Candidate>& rows, std::size_t full) {
  std::vector<End> ends;
  for (std::size_t from = 0, to = 0; from < rows.size(); from = to) {
    while (to < rows.size() && rows[to].key.partition == rows[from].key.partition) ++to;
    if (to - from < full) continue;
    End end{rows[to - 1].key.partition, rows[to - 1].due_at, {}, {}};
    for (std::size_t i = to; i > from && rows[i - 1].due_at == end.due_at; --i)
      end.shown.insert(rows[i - 1].key);
    ends.push_back(std::move(end));
  }
  std::ranges::reverse(ends);  // next() takes the last
  return ends;
}

// Once a row has stayed it goes by due time and key, which costs a sort of all rows of the moment.
std::vector<Candidate> Pager::more_of(End& end, Worker& worker, bool& full) {
  const int most = kBatchesAPage * job_.scope.batch_size;
  auto rows =
      worker.read({end.by_key ? rest_of(end, most)
                              : page(job_, {end.partition}, slice_, most, Milliseconds{0}, end.due_at)});
  full = rows.size() == static_cast<std::size_t>(most);
  if (full && end.by_key) {
    end.last = rows.back();
  } else if (full) {
    end = std::move(ends_of_full_pages(rows, rows.size()).front());
    return rows;
  }
  if (end.by_key) std::erase_if(rows, [&](const Candidate& row) { return end.shown.contains(row.key); });
  return rows;
}

// Due rows behind the last one; where there is none yet, those of the page's last moment again and all behind.
Question Pager::rest_of(const End& end, int limit) const {
  pg::Params params = job_.params({end.partition}, slice_);
  params.add(static_cast<std::int64_t>(limit));
  params.add(std::int64_t{0});
  params.add(end.last ? count(end.last->due_at) : std::max(count(end.due_at), count(kBeforeAll) + 1) - 1);
  for (std::size_t i = 0; i < job_.reconciler.key.size(); ++i)
    params.add(end.last ? std::optional(end.last->key.columns[i]) : std::nullopt);
  const Statement& statement = job_.whose() ? job_.statements.rest_whose : job_.statements.rest;
  return {statement.over(job_.groups.around(end.partition)), std::move(params)};
}

Backlog count_due(const Job& job, pg::Connection& connection, const std::vector<GroupSlice>& slices,
                  std::int64_t cap) {
  Backlog backlog;
  for (const auto& [group, slice] : slices) {
    const Partitions& partitions = job.groups.all()[group];
    pg::Params params = job.params(slice.partitions_of(partitions), slice);
    params.add(cap - backlog.due);
    pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
    const std::string sql = job.statements.backlog.over(partitions);
    const pg::Result counted = std::move(transaction.read_all({{sql, params}}).front());
    const pg::Row row = counted.one();
    backlog.due += row.get<std::int64_t>("due");
    if (const auto oldest = row.get<std::optional<std::int64_t>>("oldest_due_ms"))
      keep_earlier(backlog.oldest_due, job.late_since(unix_millis(*oldest)));
    backlog.database_time = unix_millis(row.get<std::int64_t>("now_ms"));
    if (backlog.due >= cap) backlog.capped = true;
    if (backlog.due >= cap) break;
  }
  return backlog;
}

}  // namespace ff::reconcile
