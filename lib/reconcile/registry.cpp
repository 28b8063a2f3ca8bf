#include "reconcile/registry.hpp"

#include <algorithm>

namespace ff::reconcile {

const std::vector<Reconciler>& registry() {
  static const std::vector<Reconciler> all{
      delayed_promoter(),   lease_expiry(),           attempt_timeout(),
      execution_deadline(), suspension_timeout(),     pending_waitpoint_expiry(),
      dependency(),         edge_cancel_dispatcher(), edge_cancel_reconciler(),
      budget_reset(),       worker_registry_ttl(),    outbox_retention()};
  return all;
}

const Reconciler* find_reconciler(std::string_view name) {
  const auto& all = registry();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Reconciler& r) { return r.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Settings default_settings(const Reconciler& reconciler) {
  Settings settings;
  for (const SettingDecl& decl : reconciler.settings) settings.emplace(decl.name, decl.fallback);
  return settings;
}

}  // namespace ff::reconcile
