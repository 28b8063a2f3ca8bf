#include "reconcile/hold.hpp"

#include <algorithm>

#include "reconcile/reconciler.hpp"

namespace ff::reconcile {

std::int64_t hold_above(const Settings& own) {
  return limit_of(own, kHoldAbove);
}

bool may_hold(const Reconciler& reconciler) {
  return std::ranges::find(reconciler.settings, kHoldAbove.name, &SettingDecl::name) !=
         reconciler.settings.end();
}

}  // namespace ff::reconcile
