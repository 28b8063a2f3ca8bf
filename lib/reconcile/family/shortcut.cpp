#include "reconcile/family/shortcut.hpp"

namespace ff::reconcile {

Reconciler shortcut_of(const Reconciler& pair, std::string_view scan, Milliseconds interval) {
  Reconciler announced = pair;
  announced.walk.reset();
  announced.searches = false;
  announced.is_shortcut = true;
  announced.scan = scan;
  announced.interval = interval;
  announced.announced = [](const Settings&) { return std::optional(Announcement{kLeaseChannel}); };
  return announced;
}

}  // namespace ff::reconcile
