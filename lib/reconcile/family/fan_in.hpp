#pragma once

#include <vector>

#include "base/fragments.hpp"

/// What the counts of a fan-in say, for whoever changes them.
namespace ff::reconcile::fan_in {

/// Beside those of waiting_children:
///
///   {policy_of:group}          the columns kind and k of an edge group's policy
///   {satisfied:success, n}     "a group with so many successes of n is satisfied", by the kind and k of a row t
///   {impossible}               "it cannot be satisfied any more", by kind, k, success, fail, skip and running of t
///   {make_eligible}            an UPDATE of the downstreams of `verdict` that satisfies them: a relation with partition_key,
///                              downstream_eid, satisfied, was_satisfied (by the counts before) and running. None of those
///                              in `ending`
std::vector<Fragment> fragments();

}  // namespace ff::reconcile::fan_in
