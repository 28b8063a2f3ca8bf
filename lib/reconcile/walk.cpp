#include "reconcile/walk.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "pg/transaction.hpp"
#include "reconcile/job.hpp"

namespace ff::reconcile {
namespace {

// How many groups are asked in one round trip where their rows together are the next stretch. The first is asked by
// itself, because it often suffices.
constexpr std::size_t kAskedTogether = 4;

}  // namespace

Slice::Place Slice::before_all() {
  return {{-1}, Uuid{}};
}

Slice::Place Slice::after_all() {
  Uuid last;
  std::fill(last.begin(), last.end(), std::uint8_t{0xff});
  return {{std::numeric_limits<std::int16_t>::max()}, last};
}

Slice Slice::nothing() {
  return {after_all(), before_all()};
}

void Slice::add_to(pg::Params& params) const {
  for (const Place* place : {&after, &up_to}) params.add(place->partition).add(place->key);
}

Partitions Slice::partitions_of(const Partitions& all) const {
  Partitions some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), [&](PartitionKey partition) {
    return after.partition <= partition && partition <= up_to.partition;
  });
  return some;
}

std::vector<GroupSlice> Walker::next(const Job& job, pg::Connection& connection, std::int64_t rows) {
  const bool by_rows = job.reconciler.walk->phases.empty();
  auto slices = by_rows ? next_rows(job, connection, rows) : next_partitions(job, connection, rows);
  // A scan tells the time, whatever it reads.
  if (slices.empty() && job.groups.size() > 0) slices.push_back({0, Slice::nothing()});
  return slices;
}

std::vector<GroupSlice> Walker::next_rows(const Job& job, pg::Connection& connection, std::int64_t rows) {
  std::vector<GroupSlice> slices;
  Place at = from_.group < job.groups.size() ? from_ : Place{};
  const std::int64_t wanted = rows;
  for (std::size_t together = 1; rows > 0 && at.group < job.groups.size(); together = kAskedTogether) {
    std::vector<pg::Call> calls;
    for (std::size_t group = at.group; group < std::min(at.group + together, job.groups.size()); ++group) {
      const Slice::Place after = group == at.group ? at.row : Slice::before_all();
      const Partitions& partitions = job.groups.all()[group];
      calls.push_back({job.statements.slice_end.over(partitions),
                       pg::Params::of(partitions, after.partition, after.key, rows)});
    }
    pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
    for (const pg::Result& end : transaction.read_all(std::move(calls))) {
      if (rows <= 0) break;
      const std::int64_t found = end.empty() ? 0 : end.one().get<std::int64_t>("rows");
      const Slice::Place last =
          end.empty() ? at.row : Slice::Place{end.one().get<PartitionKey>(0), end.one().get<Uuid>(1)};
      const bool is_all = found < rows;
      if (found > 0) slices.push_back({at.group, {at.row, is_all ? Slice::after_all() : last}});
      rows -= found;
      at = is_all ? Place{at.group + 1} : Place{at.group, last};
    }
  }
  to_ = at.group < job.groups.size() ? at : Place{};
  rows_ = wanted - std::max<std::int64_t>(rows, 0);
  return slices;
}

std::vector<GroupSlice> Walker::next_partitions(const Job& job, pg::Connection& connection,
                                                std::int64_t rows) {
  std::vector<GroupSlice> slices;
  Place at = from_.group < job.groups.size() ? from_ : Place{};
  std::int64_t wanted = rows - at.too_many;
  at.too_many = std::max<std::int64_t>(0, -wanted);
  for (std::size_t together = 1; wanted > 0 && at.group < job.groups.size(); together = kAskedTogether) {
    std::vector<pg::Call> calls;
    std::vector<GroupSlice> asked;
    for (std::size_t group = at.group; group < std::min(at.group + together, job.groups.size()); ++group) {
      Partitions left = job.groups.all()[group];
      if (group == at.group) std::erase_if(left, [&](PartitionKey each) { return each <= at.row.partition; });
      if (left.empty()) continue;
      calls.push_back({job.statements.slice_end.over(job.groups.all()[group]), pg::Params::of(left, wanted)});
      asked.push_back({group, {{left.front(), Uuid{}}, Slice::after_all()}});
    }
    at = {std::min(at.group + together, job.groups.size())};
    if (calls.empty()) continue;
    pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
    const auto ends = transaction.read_all(std::move(calls));
    for (std::size_t i = 0; i < ends.size() && wanted > 0; ++i) {
      const auto found = ends[i].one().get<std::int64_t>("rows");
      if (found >= wanted) {
        asked[i].slice.up_to.partition = ends[i].one().get<PartitionKey>("partition_key");
        at = {asked[i].group, asked[i].slice.up_to, found - wanted};
      }
      wanted -= found;
      if (found > 0) slices.push_back(asked[i]);
    }
  }
  to_ = at.group < job.groups.size() ? at : Place{.too_many = at.too_many};
  return slices;
}

std::vector<GroupSlice> whole(const Groups& groups) {
  std::vector<GroupSlice> all;
  for (std::size_t group = 0; group < groups.size(); ++group) all.push_back({group, {}});
  return all;
}

}  // namespace ff::reconcile
