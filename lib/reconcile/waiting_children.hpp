#pragma once

#include <string>

#include "reconcile/reconciler.hpp"

/// Executions that wait for their children, as FlowFabric's wait_children leaves them: it gives the lease back
/// and looks at no group, so that children that ended before it was called wake nobody.
namespace ff::reconcile::waiting_children {

/// "The execution waits for its children", by the core row with this alias. The reason alone does not say so:
/// FlowFabric never clears it.
std::string condition(std::string_view core);

/// The assignments that let a locked core row `c` (phrases::as_seen) be claimed again where it left off.
std::string made_eligible();

/// The companion of dependency that wakes those of whose children none is left.
Reconciler woken(Reconciler dependency);

}  // namespace ff::reconcile::waiting_children
