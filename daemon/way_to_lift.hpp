#pragma once

#include <string>
#include <string_view>

#include "pause/pause.hpp"
#include "reconcile/family/registry.hpp"

/// Where the registry of reconcilers and the table of pauses meet: neither knows the other.
namespace ff::daemon {

/// As pause::resume_line, of what stands in the table, or in the answer of a daemon that may be another version.
inline std::string way_to_lift(std::string_view reconciler) {
  return pause::resume_line(reconciler, reconcile::find_reconciler(reconciler) != nullptr);
}

/// The same of a hold, of which no row tells.
inline std::string way_to_release(std::string_view reconciler) {
  if (reconcile::find_reconciler(reconciler) == nullptr) return "resume it with a version that knows it";
  return pause::resume_line(reconciler, true);
}

}  // namespace ff::daemon
