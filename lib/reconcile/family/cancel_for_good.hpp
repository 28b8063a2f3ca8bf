#pragma once

#include <vector>

#include "base/fragments.hpp"

/// How an execution that somebody has cancelled is cancelled for good, whatever that cancel has left: core, leases with an
/// event each, epoch, suspension, waitpoints, and one completion event where nobody was told.
namespace ff::reconcile::cancel_for_good {

/// What the pairs of cancel_backlog say, beside those of ending.hpp:
///
///   {end_for_good:c}   the columns ended_at_ms and is_told of `doomed`, from the locked core row `c`; `clock` beside it
///   {cancel_for_good}  the relations that write it, for the rows of `cancelling`: those of `endable` that are to be
///                      cancelled, each with a `reason` for where nobody has given one
std::vector<Fragment> fragments();

}  // namespace ff::reconcile::cancel_for_good
