#pragma once

#include <string>
#include <string_view>

#include "base/fragments.hpp"
#include "base/partitions.hpp"

namespace ff::reconcile {

/// What the statements of several reconcilers say in the same words: the placeholders that each of them may use, beside
/// its own and those of the engine (see Reconciler). Where a parameter is called row or core, it is an alias: the core
/// is the execution's row in ff_exec_core. Made once; safe from any thread.
const Fragments& phrases();

/// The condition that the row of this name is in one of these partitions, worded as a Statement needs it.
std::string in_partitions(std::string_view row, const Partitions& partitions);

}  // namespace ff::reconcile
