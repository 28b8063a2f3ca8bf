#pragma once

#include "reconcile/reconciler.hpp"

/// Executions that were cancelled while a worker had their lease, and that nobody took it from. FlowFabric's `complete` asks
/// for the epoch only: such a worker would end them once more, as done.
namespace ff::reconcile::cancelled_leases {

/// The companion of cancel_backlog that takes it from them. `members`: its first pair, whose settings and `grace` it has.
Reconciler pair(const Reconciler& members);

}  // namespace ff::reconcile::cancelled_leases
