#include "reconcile/job.hpp"

namespace ff::reconcile {

pg::Params Job::params(const Partitions& partitions, const Slice& slice) const {
  const auto& tag = scope.filter.instance_tag;
  pg::Params params =
      pg::Params::of(partitions, scope.filter.name_space, tag ? std::optional(tag->key) : std::nullopt,
                     tag ? std::optional(tag->value) : std::nullopt);
  if (reconciler.walk) slice.add_to(params);
  params.append(reconciler.parameters(scope.settings, scope.family));
  params.add(static_cast<std::int64_t>(holdoff().count()));
  return params;
}

std::string Job::familiar() const {
  return groups.size() == 0 ? std::string() : statements.page.over(groups.all().front());
}

}  // namespace ff::reconcile
