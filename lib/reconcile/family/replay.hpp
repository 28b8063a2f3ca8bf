#pragma once

#include <vector>

#include "base/fragments.hpp"
#include "reconcile/reconciler.hpp"

/// What tells one run of an execution from the next: an operator's replay begins another.
namespace ff::reconcile::replay {

/// Every reconciler may use them; the core is the execution's row in ff_exec_core:
///
///   {replayed_at:core}       the moment of its newest replay; null: none, or nothing tells when
///   {tells_end:event, core}  "this row of ff_completion_event tells the end of the present run", for one that has ended
///   {told_end:core}          the outcome of the newest such event; null: nobody was told
///   {word_of_end:core}       the outcome that its event should have, by what else stands about it; null: nothing tells
///
/// Events and attempts are seen as the statement has seen them from its beginning: a locked core row must be `as_seen`.
std::vector<Fragment> phrases();

/// What they need, beside ff_exec_core.
std::vector<Privileges> privileges(const std::vector<Privileges>& beside = {});

}  // namespace ff::reconcile::replay
