#pragma once

#include <string>

#include "reconcile/reconciler.hpp"

/// What edge_cancel_dispatcher and edge_cancel_reconciler have in common: the list that both work off.
namespace ff::reconcile::cancel_groups {

/// The scan of both: every row of ff_pending_cancel_groups. The filter is matched on the downstream execution.
std::string scan();

/// A group is written by whoever passes on a completion event, soon after that was announced.
std::optional<Announcement> announced(const Settings&);

/// The beginning of both acts: locks the pending rows and then their edge groups, skipping what others hold. Makes
/// of them `edge_group` (columns of the key, due_at_ms, now_ms, flag, members), where the group was to be had, and
/// otherwise `without_group` (columns of the key, due_at_ms, now_ms, is_there: it was when the statement began).
std::string hold_groups();

/// What scan() and hold_groups() need, and deleting a pending row.
std::vector<Privileges> privileges();

}  // namespace ff::reconcile::cancel_groups
