#pragma once

#include <vector>

#include "base/fragments.hpp"

/// What the counts of a fan-in say.
namespace ff::reconcile::fan_in {

/// Of reconcile::phrases():
///
///   {kind_of:group}            what an edge group waits for: any_of, quorum, or else all_of
///   {policy_of:group}          that and the number of a quorum, as the columns kind and k
///   {satisfied:policy, success, n}
///                              "a group with so many successes of n is satisfied", by the columns of {policy_of:group} in
///                              the row `policy`
///   {impossible:policy, success, bad, running}
///                              "with so many successes, failures or skips, and running, it cannot be satisfied any more"
///   {is_decided:policy, success, bad, running}
///                              "some have ended, and with these counts it is one or the other"
std::vector<Fragment> phrases();

/// For whoever changes the counts, beside those of waiting_children:
///
///   {was_impossible}           {impossible:t, …} by the counts before: success_before, counted_before (all that have
///                              ended) and running_before of a row t
///   {was_replayed:core}        a column of that name, for `doomed`
///   {brought_back:doomed}      "an operator has replayed this downstream, whose fan-in was impossible before": by `verdict`
///                              with was_impossible
///   {lets_run:group}           "siblings go on when the group is satisfied"
///   {settle}                   writes the counts of `verdict` into its groups, and where these have just been satisfied lists
///                              the siblings still at work for edge_cancel_dispatcher, unless they are let run: `settled`,
///                              `counted` and `pending`. Beside the columns below `verdict` has flow_id, success, fail, skip,
///                              kind, let_run, and upstreams, a uuid[] of those whose ends it counts
///   {make_eligible}            an UPDATE of the downstreams of `verdict` that satisfies them: a relation with partition_key,
///                              downstream_eid, satisfied, was_satisfied (by the counts before) and running. None of those
///                              in `ending`
std::vector<Fragment> fragments();

}  // namespace ff::reconcile::fan_in
