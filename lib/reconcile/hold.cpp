#include "reconcile/hold.hpp"

#include <algorithm>

#include "reconcile/reconciler.hpp"

namespace ff::reconcile {

std::int64_t hold_above(const Settings& own) {
  const auto found = own.find(kHoldAbove.name);
  return found == own.end() ? 0 : found->second.value_or(0);
}

bool may_hold(const Reconciler& reconciler) {
  return std::ranges::find(reconciler.settings, kHoldAbove.name, &SettingDecl::name) !=
         reconciler.settings.end();
}

}  // namespace ff::reconcile
