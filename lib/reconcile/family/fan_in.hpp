#pragma once

#include <vector>

#include "base/fragments.hpp"

/// What the counts of a fan-in say, for whoever changes them.
namespace ff::reconcile::fan_in {

/// Beside those of waiting_children:
///
///   {policy_of:group}          the columns kind and k of an edge group's policy
///   {satisfied:success, n}     "a group with so many successes of n is satisfied", by the kind and k of a row t
///   {impossible:success, bad, running}
///                              "with so many successes, failures or skips, and running, it cannot be satisfied any more",
///                              by the kind and k of a row t
///   {was_impossible}           the same by its counts before: success_before, counted_before (all that have ended) and
///                              running_before of a row t
///   {was_replayed:core}        a column of that name, for `doomed`
///   {brought_back:doomed}      "an operator has replayed this downstream, whose fan-in was impossible before": by `verdict`
///                              with was_impossible
///   {make_eligible}            an UPDATE of the downstreams of `verdict` that satisfies them: a relation with partition_key,
///                              downstream_eid, satisfied, was_satisfied (by the counts before) and running. None of those
///                              in `ending`
std::vector<Fragment> fragments();

}  // namespace ff::reconcile::fan_in
