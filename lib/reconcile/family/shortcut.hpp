#pragma once

#include <string_view>

#include "reconcile/reconciler.hpp"

namespace ff::reconcile {

/// The shortcut to rows of a pair that walks or searches: `scan` finds those that the newest lease events name, so it is
/// looked at while these are announced. Whatever else there is to say of them is the pair's.
Reconciler shortcut_of(const Reconciler& pair, std::string_view scan, Milliseconds interval);

}  // namespace ff::reconcile
