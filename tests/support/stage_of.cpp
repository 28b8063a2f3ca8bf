// Which of the stages a reconciler, or a companion of one, plays on.
#include <algorithm>
#include <stdexcept>

#include "reconcile/family/registry.hpp"
#include "support/stages.hpp"

namespace ff::test {

const Stage& stage_of(const reconcile::Reconciler& reconciler) {
  int companion = 0;
  // One that reads the same rows at another time has the text of the first, but an interval of its own, or rows that nothing
  // shows beforehand.
  const auto is_it = [&](const reconcile::Reconciler& other) {
    return reconciler.scan == other.scan && reconciler.interval == other.interval &&
           reconciler.foreseen == other.foreseen;
  };
  if (const auto* main = reconcile::find_reconciler(reconciler.name); main && !is_it(*main)) {
    const auto& all = main->companions;
    const auto its = std::ranges::find_if(all, is_it);
    const auto same_scan = std::ranges::find(all, reconciler.scan, &reconcile::Reconciler::scan);
    if (its != all.end() || (same_scan != all.end() && reconciler.scan != main->scan))
      companion = static_cast<int>((its != all.end() ? its : same_scan) - all.begin()) + 1;
  }
  const auto found = std::ranges::find_if(stages(), [&](const Stage& stage) {
    return stage.reconciler == reconciler.name && stage.companion == companion;
  });
  if (found == stages().end()) throw std::out_of_range("no stage for " + std::string(reconciler.name));
  return *found;
}

}  // namespace ff::test
