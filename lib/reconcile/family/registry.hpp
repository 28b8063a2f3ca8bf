#pragma once

#include <vector>

#include "reconcile/reconciler.hpp"

namespace ff::reconcile {

// One file each; the head of the file says which rows it takes, what it changes and why that is safe.
Reconciler delayed_promoter();
Reconciler grant_expiry();
Reconciler dead_worker();
Reconciler lease_expiry();
Reconciler attempt_timeout();
Reconciler execution_deadline();
Reconciler suspension_timeout();
Reconciler pending_waitpoint_expiry();
Reconciler stray_waitpoint();
Reconciler completion_repair();
Reconciler dependency();
Reconciler group_recount();
Reconciler edge_cancel_dispatcher();
Reconciler edge_cancel_reconciler();
Reconciler index_repair();
Reconciler cancel_backlog();
Reconciler budget_reset();
Reconciler quota_concurrency();
Reconciler quota_window();
Reconciler worker_registry_ttl();
Reconciler execution_retention();
Reconciler outbox_retention();

/// Every reconciler there is, in the order in which one pass of all of them runs. Made once; safe from any
/// thread. Throws std::invalid_argument for a statement with a placeholder that means nothing.
const std::vector<Reconciler>& registry();

/// Every pair there is by itself: the reconcilers without their companions, and these.
const std::vector<Reconciler>& all_pairs();

/// Null when there is none of this name.
const Reconciler* find_reconciler(std::string_view name);

}  // namespace ff::reconcile
