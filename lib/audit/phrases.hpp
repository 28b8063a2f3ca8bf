#pragma once

#include "base/fragments.hpp"
#include "base/partitions.hpp"

namespace ff::audit {

/// What the statements of sweeps say more than once, beside reconcile::phrases(), over these partitions; and `{now}` and
/// `{long_ago}`, a minute before: so long nothing that is due may lie where somebody looks after it.
Fragments phrases(const Partitions& partitions);

/// What remedies say more than once: of a row that is shown as `{$partition_key}` and `{$key}`.
Fragments words();

}  // namespace ff::audit
