#pragma once

#include <vector>

#include "reconcile/reconciler.hpp"

/// Executions that wait for their children, as FlowFabric's wait_children leaves them: it gives the lease back
/// and looks at no group, so that children that ended before it was called wake nobody.
namespace ff::reconcile::waiting_children {

/// What dependency and its companions say:
///
///   {waits_for_children:core}  "The execution waits for its children." The reason alone does not say so: FlowFabric
///                              never clears it.
///   {nobody_is_left:group}     "Somebody has been counted in the edge group, and nobody is running."
///   {made_eligible}            the assignments that let a locked core row `c`, {as_seen:c}, be claimed again where it
///                              left off.
std::vector<Fragment> fragments();

/// The companions of dependency that wake those of whose children none is left.
std::vector<Reconciler> woken(Reconciler dependency);

}  // namespace ff::reconcile::waiting_children
