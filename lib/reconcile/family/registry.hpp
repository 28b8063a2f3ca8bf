#pragma once

#include <vector>

#include "reconcile/reconciler.hpp"

namespace ff::reconcile {

// One file each; the head of the file says which rows it takes, what it changes and why that is safe.
#define FF_RECONCILER(name) Reconciler name();
#include "reconcile/family/registry.def"
#undef FF_RECONCILER

/// Every reconciler there is, in the order in which one pass of all of them runs. Made once; safe from any
/// thread. Throws std::invalid_argument for a statement with a placeholder that means nothing.
const std::vector<Reconciler>& registry();

/// Every pair there is by itself: the reconcilers without their companions, and these.
const std::vector<Reconciler>& all_pairs();

/// Null when there is none of this name.
const Reconciler* find_reconciler(std::string_view name);

}  // namespace ff::reconcile
