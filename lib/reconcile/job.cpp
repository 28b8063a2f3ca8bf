#include "reconcile/job.hpp"

#include <algorithm>

namespace ff::reconcile {

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

bool Job::ask(pg::Transaction& transaction) {
  if (!prelude) return true;
  told = prelude->ask({.transaction = transaction, .wary = options.wary, .scan = options.scan});
  return !told->worth_a_scan.empty();
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

UnixMillis Job::could_be_taken(const RowKey& key) const {
  return reconciler.still_for > Milliseconds{0} ? still_rows.since(key) + still_for() : UnixMillis{};
}

std::string Job::familiar() const {
  return groups.size() == 0 ? std::string() : statements.page.over(groups.all().front());
}

}  // namespace ff::reconcile
