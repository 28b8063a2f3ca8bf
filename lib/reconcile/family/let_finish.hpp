#pragma once

#include <vector>

#include "base/fragments.hpp"
#include "reconcile/reconciler.hpp"

/// Members of a cancelled flow whose workers may finish: FlowFabric's cancel of a flow's header calls them cancelled and
/// leaves them their leases, and under every policy but cancel_all what such a worker does then is the end.
namespace ff::reconcile::let_finish {

/// Every reconciler may use them; the core is the execution's row in ff_exec_core, `as_seen` where it is locked:
///
///   {member_name:core}       how the backlog names it, as text
///   {may_finish:core}        "the header of its flow cancelled it, under a policy that lets its worker finish"
///   {is_still_at_work:core}  "and that worker has its lease still". It may become true again: FlowFabric renews a lease
///                            that has run out as well
///   {backlog_in_sight}       what both go by is in sight, for whoever concludes something from their being false, or true;
///                            beside it, the second one goes by ff_attempt
std::vector<Fragment> phrases();

/// What they need, beside ff_exec_core.
std::vector<Privileges> privileges(const std::vector<Privileges>& beside = {});

}  // namespace ff::reconcile::let_finish
