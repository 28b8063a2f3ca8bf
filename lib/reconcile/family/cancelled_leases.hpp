#pragma once

#include <vector>

#include "reconcile/reconciler.hpp"

/// Executions that were cancelled while a worker had their lease, and that nobody took it from. FlowFabric's `complete` asks
/// for the epoch only: such a worker would end them once more, as done.
namespace ff::reconcile::cancelled_leases {

/// The companions of cancel_backlog that take it from them, and end what such a worker has suspended instead. `members`: its
/// first pair, whose settings and `grace` they have.
std::vector<Reconciler> pairs(const Reconciler& members);

}  // namespace ff::reconcile::cancelled_leases
