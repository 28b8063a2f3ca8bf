#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "reconcile/reconciler.hpp"

/// What edge_cancel_dispatcher and edge_cancel_reconciler have in common: the list that both work off.
namespace ff::reconcile::cancel_groups {

/// The scan of both: every row of ff_pending_cancel_groups. The filter is matched on the downstream execution.
extern const std::string_view kPendingScan;

/// What both acts say, from top to bottom:
///
/// {hold_groups} locks the pending rows and then their edge groups, skipping what others hold. Makes
/// of them `edge_group` (columns of the key, due_at_ms, now_ms, flag, members), where the group was to be had, and
/// otherwise `without_group` (columns of the key, due_at_ms, now_ms, is_there: it was when the statement began).
///
/// The act then makes of them `judged`, with an outcome; {judged_without_group:held, gone} is the half of it that has no
/// group.
///
/// {settle_groups:cleared, gone} clears the flag and the list of what was judged `cleared`, deletes the pending rows of
/// that and of what is `gone`, and makes `moved`, where each list entry that is no uuid is `malformed`.
std::vector<Fragment> fragments();

/// A group is due as soon as it is there. When it was enqueued only says which goes first: it is the word of some
/// host's clock, which may be ahead. So it may be taken as long before that as there is time.
Milliseconds holdoff(const Settings&);

/// A group is written by whoever passes on a completion event, soon after that was announced.
std::optional<Announcement> announced(const Settings&);

/// What both need.
std::vector<Privileges> privileges();

}  // namespace ff::reconcile::cancel_groups
