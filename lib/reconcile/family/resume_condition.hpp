#pragma once

#include <vector>

#include "base/fragments.hpp"

/// FlowFabric's ResumeCondition, as it stands in ff_suspension_current: which waitpoints it names, and by which key.
namespace ff::reconcile::resume_condition {

/// Of rows in ff_waitpoint_pending and ff_suspension_current:
///
///   {awaited_keys:suspension}         something to select from: the keys that the condition names, each once, as `key`
///   {names_at:condition, key}         text[], the signals that the condition wants at the waitpoint of that key
///   {lost_key:waitpoint, suspension}  the key that an active waitpoint without one was to have: the only one that the
///                                     condition names and no other waitpoint of this suspension has. Null where there
///                                     are none or several, or another waitpoint has lost its key as well
std::vector<Fragment> phrases();

}  // namespace ff::reconcile::resume_condition
