#pragma once

#include <vector>

#include "reconcile/reconciler.hpp"

namespace ff::reconcile {

// One file each; the head of the file says which rows it takes, what it changes and why that is safe.
Reconciler attempt_timeout();
Reconciler lease_expiry();

/// Every reconciler there is, in the order in which one pass of all of them runs. Made once; safe from any
/// thread.
const std::vector<Reconciler>& registry();

/// Null when there is none of this name.
const Reconciler* find_reconciler(std::string_view name);

}  // namespace ff::reconcile
